"""Every page: readable by everybody, at every width, in both themes; and hostile text is only text."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.calls import Calls
from tests.browser.conftest import home_of, watched
from tests.browser.console import Console
from tests.browser.receiver import receiver
from tests.scenarios.processes import Server, billhook_in, until

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
def ids(calls: Calls, server: Server) -> Iterator[dict[str, str]]:
    """An installation in which every text that people can type is hostile, and something of everything is there."""
    with receiver() as told:
        group, empty = calls.add_group(HOSTILE), calls.add_group("Empty")
        well = calls.add_provider(group, HOSTILE, told.url, X_Team="<b>finance</b>")
        calls.add_provider(group, "Refuses", "http://127.0.0.1:9/hook")
        key = calls.post("/clients", name=HOSTILE, scope="groups:read", description=HOSTILE + LONG[:800])
        server.post_auth(key)
        server.post_auth(key | {"client_secret": "wrong"})
        sent = calls.send(group, HOSTILE, HOSTILE + LONG)
        first, second = (each["id"] for each in sent["deliveries"])
        until(lambda: len(told.delivered) == 1, what="the delivery")
        until(
            lambda: all(calls.get(f"/deliveries/{each}")["attempts"] for each in (first, second)), what="the attempts"
        )
        states = {calls.get(f"/deliveries/{each}")["state"]: each for each in (first, second)}
        yield {
            "group": group,
            "empty": empty,
            "provider": well,
            "key": key["client_id"],
            "delivered": states["delivered"],
            "failed": states["pending"],
        }


def must_be_good(page: Page, path: str) -> None:
    must_fit(page, path)
    page.set_viewport_size({"width": 1280, "height": 900})
    must_be_readable(page, path)
    assert page.evaluate("window.hurt") is None


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
    must_be_good(console.page, path)
    assert "49" not in console.page.title()


def test_pages_that_answer_a_form_are_too(console: Console, ids: dict[str, str]) -> None:
    """What is shown once, mistakes, what came of a test, and a recovery."""
    page = console.page
    console.open("/settings/api-keys/new")
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    console.press("Create the key")
    must_be_good(page, "a key with mistakes")
    page.get_by_role("checkbox", name="groups:read").check()
    console.press("Create the key")
    expect(page.get_by_label("Client secret")).to_be_visible()
    must_be_good(page, "the secret of a key")
    console.open("/settings/users")
    page.get_by_label("Email").fill("vic@example.com")
    console.press("Make the link")
    link = page.get_by_label("One-time link").input_value()
    must_be_good(page, "an invitation link")
    page.goto(link)
    must_be_good(page, "an invitation")
    console.open(f"/settings/notifications/groups/{ids['group']}/providers/{ids['provider']}/edit")
    console.press("Send test")
    expect(page.locator("#test-result")).to_contain_text("200")
    must_be_good(page, "what came of a test")
    page.get_by_label("Server URL").fill("http://127.1/")
    page.get_by_role("button", name="Save").last.click()
    expect(page.locator("#server_url-mistake")).to_be_visible()
    must_be_good(page, "a provider with mistakes")
    console.open(f"/deliveries/recover?provider_id={ids['provider']}")
    page.locator("main form button.primary").last.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Recovery of")
    must_be_good(page, "a recovery")


def test_an_installation_without_users_or_anything_else_is_too(chromium: Browser, tmp_path: Path) -> None:
    """The set-up page, and every page that has nothing to show yet."""
    with billhook_in(tmp_path) as program:
        empty = program.serve()
        found = re.search(r"http://[\w.:]+/console/set-up/[0-9a-f]+", empty.stderr)
        assert found is not None
        with watched(chromium.new_context(), empty) as page:
            console = Console(page, home_of(empty))
            page.goto(found[0])
            must_be_good(page, "set-up")
            console.set_up()
            for path in ("/settings/notifications", "/settings/api-keys", "/deliveries", "/deliveries/recover"):
                console.open(path)
                must_be_good(page, path)


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
