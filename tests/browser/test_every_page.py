"""Every page: readable by everybody, at every width, in both themes; and hostile text is only text."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import home_of, watched
from tests.browser.console import Console
from tests.browser.receiver import receiver
from tests.scenarios.processes import Billhook, Server, until

HOSTILE = '<script>window.hurt=1</script><img src=x onerror="window.hurt=1">\u202eRTL\u2066 🪝{{7*7}}'
LONG = "unbroken" * 1250
WIDTHS = (360, 1280, 2560)
PLAIN = ("/sign-in", "/nowhere")
CLOSED = (
    "/settings/notifications",
    "/settings/notifications/groups/{group}",
    "/settings/notifications/groups/{group}/send",
    "/settings/notifications/groups/{group}/delete",
    "/settings/notifications/groups/{group}/providers/new",
    "/settings/notifications/groups/{group}/providers/{provider}",
    "/settings/notifications/groups/{group}/providers/{provider}/edit",
    "/settings/notifications/groups/{group}/providers/{provider}/delete",
    "/settings/notifications/groups/{empty}",
    "/settings/api-keys",
    "/settings/api-keys/new",
    "/settings/api-keys/{key}",
    "/settings/users",
    "/settings/profile",
    "/deliveries",
    "/deliveries?provider_id={provider}",
    "/deliveries?state=cancelled",
    "/deliveries/{delivered}",
    "/deliveries/{failed}",
    "/deliveries/recover",
    "/deliveries/dlv_00000000000000000000000000",
)


@pytest.fixture(scope="module")
def ids(program: Billhook, server: Server) -> Iterator[dict[str, str]]:
    """An installation in which every text that people can type is hostile, and something of everything is there."""
    with receiver() as told:
        group = program.json("group", "create", HOSTILE)["id"]
        empty = program.json("group", "create", "Empty")["id"]
        add = ("provider", "add", group, "--type", "Webhook", "--method", "POST")
        well = program.json(*add, "--name", HOSTILE, "--url", told.url, "--header", "X-Team: <b>finance</b>")
        program.json(*add, "--name", "Refuses", "--url", "http://127.0.0.1:9/hook")
        described = ("--description", HOSTILE + LONG[:800])
        key = program.json("client", "create", "--name", HOSTILE, "--scope", "groups:read", *described)
        server.post_auth(key)
        server.post_auth(key | {"client_secret": "wrong"})
        sent = program.json("send", group, "--title", HOSTILE, "--content", HOSTILE + LONG)
        first, second = (each["id"] for each in sent["deliveries"])
        until(lambda: len(told.delivered) == 1, what="the delivery")
        until(
            lambda: all(program.json("deliveries", each)["attempts"] for each in (first, second)), what="the attempts"
        )
        states = {program.json("deliveries", each)["state"]: each for each in (first, second)}
        yield {
            "group": group,
            "empty": empty,
            "provider": well["id"],
            "key": key["client_id"],
            "delivered": states["delivered"],
            "failed": states["pending"],
        }


def must_fit(page: Page, path: str) -> None:
    """Nothing sticks out to the side; wide tables scroll by themselves."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} px too wide at {width}"


def must_be_readable(page: Page, path: str) -> None:
    """For everybody, as far as axe-core can tell."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        found = Axe().run(page)
        serious = [each for each in found.response["violations"] if each["impact"] in ("serious", "critical")]
        told = [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in serious]
        assert told == [], f"{path} in {theme}"


@pytest.mark.parametrize("path", [*PLAIN, *CLOSED])
def test_every_page_is_readable_fits_and_shows_text_as_text(console: Console, ids: dict[str, str], path: str) -> None:
    if path == "/sign-in":
        console.page.context.clear_cookies()
    console.open(path.format(**ids))
    expect(console.page.get_by_role("heading", level=1)).to_have_count(1)
    must_fit(console.page, path)
    console.page.set_viewport_size({"width": 1280, "height": 900})
    must_be_readable(console.page, path)
    assert console.page.evaluate("window.hurt") is None
    assert "49" not in console.page.title()


def test_times_are_in_the_readers_zone_with_the_exact_moment_on_hover(
    chromium: Browser, server: Server, signed_in_state: str, ids: dict[str, str]
) -> None:
    state = {"storage_state": signed_in_state, "locale": "en-GB", "timezone_id": "Asia/Tokyo"}
    with watched(chromium.new_context(**state), server) as page:  # type: ignore[arg-type]
        Console(page, home_of(server)).open("/settings/profile")
        shown = page.locator("time").first
        exact = shown.get_attribute("datetime") or ""
        hour = (int(exact[11:13]) + 9) % 24
        assert f"{hour:02}:{exact[14:16]}" in shown.inner_text()
        assert exact in (shown.get_attribute("title") or "")


def test_pages_are_whole_without_script(
    chromium: Browser, server: Server, signed_in_state: str, ids: dict[str, str]
) -> None:
    context = chromium.new_context(storage_state=signed_in_state, java_script_enabled=False)
    with watched(context, server) as page:
        form = f"/settings/notifications/groups/{ids['empty']}/providers/new"
        Console(page, home_of(server)).open(form)
        page.get_by_label("Name", exact=True).fill("No script")
        page.get_by_role("button", name="Add header").click()
        page.get_by_role("button", name="Add header").click()
        page.get_by_label("Header key").first.fill("X-One")
        page.get_by_role("button", name="Remove this header").last.click()
        expect(page.get_by_label("Header key")).to_have_count(1)
        expect(page.get_by_label("Header key")).to_have_value("X-One")
        expect(page.get_by_label("Name", exact=True)).to_have_value("No script")
