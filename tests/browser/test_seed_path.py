"""The path of the seed, word for word, from sign-in to a delivery that has arrived."""

import json
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.console import Console
from tests.browser.receiver import Receiver, receiver
from tests.scenarios.processes import until

TITLE, CONTENT = "Budget “Production” at 80 %", 'Line one & two = 100 % <b>"quoted"</b>\nnaïve café 🪝'


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as told:
        yield told


def add_group(console: Console, name: str) -> None:
    console.page.get_by_label("Name of the group").fill(name)
    console.press("Add provider group")
    expect(console.page.get_by_role("heading", name=name, level=1)).to_be_visible()


def fill_provider(page: Page, *, name: str, url: str, method: str) -> None:
    page.get_by_label("Select type").select_option("Webhook")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Server URL").fill(url)
    page.get_by_role("radio", name=method).check()


def add_header(page: Page, key: str, value: str) -> None:
    page.get_by_role("button", name="Add header").click()
    page.get_by_label("Header key").last.fill(key)
    page.get_by_label("Header value").last.fill(value)


def send(console: Console, *, title: str = TITLE, content: str = CONTENT) -> None:
    console.page.get_by_role("link", name="Send a notification").first.click()
    console.page.get_by_label("Title").fill(title)
    console.page.get_by_label("Content").fill(content)
    console.press("Send")


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_from_sign_in_to_a_delivery_received(
    stranger: Console, signed_in_state: object, hook: Receiver, method: str
) -> None:
    page = stranger.page
    stranger.sign_in()
    stranger.go_to_settings("Notifications")
    add_group(stranger, f"Alerts by {method}")
    page.get_by_role("link", name="Add provider").first.click()
    fill_provider(page, name="Finance chat", url=f"{hook.url}?team=finance", method=method)
    add_header(page, "X-Team", "finance")
    add_header(page, "Authorization", "Bearer very-secret")
    preview = page.locator("#preview")
    expect(preview).to_contain_text(f"{method} /hook?team=finance")
    expect(preview).to_contain_text("X-Team: finance")
    stranger.press("Send test")
    expect(page.locator("#test-result")).to_contain_text("200")
    page.get_by_role("button", name="Save").last.click()
    stranger.says("Finance chat")
    expect(page.get_by_text("whsec_").or_(page.locator("input[value^='whsec_']")).first).to_be_visible()
    page.get_by_role("link", name=f"Alerts by {method}").first.click()
    expect(page.get_by_role("link", name="Finance chat")).to_be_visible()
    send(stranger)
    expect(page.locator(".badge", has_text="delivered").first).to_be_visible(timeout=20_000)
    (arrived,) = hook.delivered
    assert arrived.method == method
    assert (arrived.headers["x-team"], arrived.headers["authorization"]) == ("finance", "Bearer very-secret")
    if method == "POST":
        assert json.loads(arrived.body) == {"title": TITLE, "content": CONTENT}
    else:
        query = parse_qs(urlsplit(arrived.target).query, strict_parsing=True)
        assert query == {"team": ["finance"], "title": [TITLE], "content": [CONTENT]}
        assert arrived.body == ""


def test_the_form_by_keyboard_alone(console: Console, hook: Receiver) -> None:
    page = console.page
    console.open("/settings/notifications")
    page.get_by_label("Name of the group").focus()
    page.keyboard.type("By keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="By keyboard", level=1)).to_be_visible()
    tab_to(page, "Add provider")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Add provider", level=1)).to_be_visible()
    tab_to(page, "Select type")
    page.keyboard.type("W")
    page.keyboard.press("Tab")
    page.keyboard.type("Keys only")
    page.keyboard.press("Tab")
    page.keyboard.type(hook.url)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    tab_to(page, "Add header")
    page.keyboard.press("Enter")
    page.keyboard.type("X-Key")
    page.keyboard.press("Tab")
    page.keyboard.type("typed")
    tab_to(page, "Send test")
    page.keyboard.press("Enter")
    expect(page.locator("#test-result")).to_contain_text("200")
    tab_to(page, "Save", backwards=True)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Keys only", level=1)).to_be_visible()
    assert [each.headers.get("x-key") for each in hook.arrived] == ["typed"]


def tab_to(page: Page, name: str, *, backwards: bool = False) -> None:
    """Press Tab until what has the focus is called so, and see that the focus can be seen."""
    for _ in range(80):
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
        focused = page.locator(":focus")
        if focused.count() and name in _name_of(page):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"{name} cannot be reached by keyboard")


def _name_of(page: Page) -> str:
    said: str = page.evaluate(
        "(document.activeElement.labels?.[0] || document.activeElement).textContent + ' '"
        " + (document.activeElement.getAttribute('aria-label') || '')"
    )
    return said


def test_mistakes_stand_beside_their_field_and_nothing_typed_is_lost(console: Console) -> None:
    page = console.page
    console.open("/settings/notifications")
    add_group(console, "Mistakes")
    page.get_by_role("link", name="Add provider").first.click()
    fill_provider(page, name="Wrong", url="http://127.1/hook", method="GET")
    add_header(page, "Host", "evil.example")
    page.get_by_role("button", name="Save").last.click()
    expect(page.locator("#server_url-mistake")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Wrong")
    expect(page.get_by_label("Server URL")).to_have_value("http://127.1/hook")
    expect(page.get_by_label("Header key")).to_have_value("Host")
    expect(page.get_by_label("Header value")).to_have_value("evil.example")
    expect(page.get_by_role("radio", name="GET")).to_be_checked()


def test_a_failing_receiver_is_repaired_tested_and_delivered_again(console: Console, hook: Receiver) -> None:
    page = console.page
    hook.status = 500
    console.open("/settings/notifications")
    add_group(console, "Repairs")
    page.get_by_role("link", name="Add provider").first.click()
    fill_provider(page, name="Broken", url=hook.url, method="POST")
    page.get_by_role("button", name="Save").last.click()
    page.get_by_role("link", name="Repairs").first.click()
    send(console, title="Will fail at first")
    until(lambda: len(hook.delivered) == 1, what="the first attempt")
    page.get_by_role("link", name="Will fail at first").click()
    expect(page.get_by_text("500").first).to_be_visible(timeout=20_000)
    expect(page.locator("[data-countdown]").first).to_contain_text("in ")
    hook.status = 200
    page.get_by_role("link", name="Broken").first.click()
    console.press("Send test")
    expect(page.locator("#test-result")).to_contain_text("200")
    page.go_back()
    page.locator("#redeliver").click()
    expect(page.locator(".badge", has_text="delivered").first).to_be_visible(timeout=20_000)
    first, second = hook.delivered
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_the_list_changes_before_ones_eyes(console: Console, program: object, hook: Receiver) -> None:
    """A notification sent elsewhere appears without reload, and so does what became of it."""
    page = console.page
    console.open("/settings/notifications")
    add_group(console, "Live")
    page.get_by_role("link", name="Add provider").first.click()
    fill_provider(page, name="Watched", url=hook.url, method="POST")
    page.get_by_role("button", name="Save").last.click()
    console.open("/deliveries")
    with page.context.new_page() as other:
        elsewhere = Console(other, console.home)
        elsewhere.open("/settings/notifications")
        other.get_by_role("link", name="Live", exact=True).click()
        send(elsewhere, title="Out of the blue")
    row = page.get_by_role("row").filter(has_text="Out of the blue")
    expect(row).to_be_visible(timeout=20_000)
    expect(row).to_contain_text("delivered", timeout=20_000)
