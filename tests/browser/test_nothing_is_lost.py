"""Whatever happens to the session, or however much was typed: nothing of it is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.calls import Calls
from tests.browser.conftest import home_of
from tests.browser.console import EMAIL, PASSWORD, Console
from tests.browser.receiver import receiver
from tests.browser.test_every_page import must_be_good
from tests.scenarios.processes import Server

GROUP = "/settings/notifications/groups/{}"


@pytest.fixture(scope="module")
def place(calls: Calls) -> Iterator[dict[str, str]]:
    with receiver() as told:
        group = calls.add_group("Kept")
        yield {"group": group, "provider": calls.add_provider(group, "Pager", told.url), "url": told.url}


@pytest.fixture
def own(stranger: Console, signed_in_state: Path) -> Console:
    """A session of its own, which can be ended: the others go on in theirs."""
    stranger.sign_in()
    stranger.page.wait_for_url("**/settings/notifications")
    return stranger


def sign_out_elsewhere(console: Console) -> Console:
    """In another tab."""
    other = Console(console.page.context.new_page(), console.home)
    other.open("/settings/profile")
    other.page.get_by_label("User profile").click()
    other.press("Sign out")
    other.page.wait_for_url("**/sign-in?done=signed-out")
    return other


def type_provider(page: Page, url: str) -> None:
    page.get_by_label("Name", exact=True).fill("Typed <b>long</b> ago")
    page.get_by_label("Server URL").fill(url)
    page.get_by_role("button", name="Add header").click()
    page.get_by_label("Header key").fill("X-Key")
    page.get_by_label("Header value").fill("s3cret value")


def test_a_form_sent_after_signing_out_elsewhere_is_there_after_signing_in(own: Console, place: dict[str, str]) -> None:
    page = own.page
    own.open(GROUP.format(place["group"]) + "/providers/new")
    type_provider(page, place["url"])
    page.wait_for_load_state("networkidle")  # or a preview of what was typed comes after the session has ended
    sign_out_elsewhere(own)
    page.get_by_role("button", name="Save").last.click()
    own.says("What you typed is kept: sign in, and go on with it.")
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password").fill("not the password")
    own.press("Sign in")
    own.says("The email address or the password is not right")
    page.get_by_label("Password").fill(PASSWORD)
    own.press("Sign in")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not sent yet")
    expect(page.locator("dl")).to_contain_text("Typed <b>long</b> ago")
    expect(page.locator("dl")).not_to_contain_text("s3cret value")
    must_be_good(page, "what was typed before")
    own.press("Send it now")
    own.says("Saved. The provider is available inside its group.")
    own.says("X-Key: ••••")


def test_a_test_without_a_session_leaves_the_form_alone_and_goes_on_after_signing_in_elsewhere(
    chromium: Browser, server: Server, signed_in_state: Path, place: dict[str, str]
) -> None:
    context = chromium.new_context()
    context.set_default_timeout(15_000)
    console = Console(context.new_page(), home_of(server))
    page = console.page
    console.sign_in()
    page.wait_for_url("**/settings/notifications")
    console.open(GROUP.format(place["group"]) + "/providers/new")
    type_provider(page, place["url"])
    other = sign_out_elsewhere(console)
    console.press("Send test")
    expect(page.locator("#test-result")).to_contain_text("You are no longer signed in")
    other.sign_in()
    other.page.wait_for_url("**/settings/notifications")
    console.press("Send test")
    expect(page.locator("#test-result")).to_contain_text("press again")
    console.press("Send test")
    expect(page.locator("#test-result")).to_contain_text("It works")
    expect(page.get_by_label("Header value")).to_have_value("s3cret value")
    page.get_by_role("button", name="Save").last.click()
    console.says("Saved. The provider is available inside its group.")
    context.close()


def test_a_form_that_is_pressed_twice_is_sent_once(console: Console, calls: Calls, place: dict[str, str]) -> None:
    group = calls.add_group("Pressed twice")
    console.open(GROUP.format(group) + "/providers/new")
    type_provider(console.page, place["url"])
    console.page.get_by_role("button", name="Save").last.dblclick()
    console.says("Saved. The provider is available inside its group.")
    assert len(calls.get(f"/groups/{group}/providers")) == 1


def test_more_than_a_form_may_have_stays_in_the_page(console: Console, place: dict[str, str]) -> None:
    page, much = console.page, "ä" * 100_000  # of six bytes each, as a form has them
    console.open(GROUP.format(place["group"]) + "/send")
    page.get_by_label("Title").fill("Much")
    page.get_by_label("Content").evaluate("(area, text) => { area.value = text; }", much)
    console.press("Send")
    console.says("Nothing was sent: this is more than the 512 KiB that a form may have.")
    assert page.get_by_label("Content").input_value() == much
    page.get_by_label("Content").evaluate("(area, text) => { area.value = text; }", "a" * 40_000)
    console.press("Send")
    expect(page.locator("#content-mistake")).to_be_visible()
    assert page.get_by_label("Content").input_value() == "a" * 40_000, "nor is anything cut off"


def test_too_much_is_answered_with_a_page_also_where_no_script_keeps_it_back(server: Server) -> None:
    """Once all of it is read: a browser that is cut off before shows a page of its own."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = server.http.post("/console/sign-in", content=b"x" * 3_000_000, headers=headers)
    assert answer.status_code == 413
    assert "That is more than the 512 KiB that a form may have; go back, and make it shorter" in answer.text
