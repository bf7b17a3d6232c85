"""The first admin, and those they invite."""

import httpx
from playwright.sync_api import Browser, expect

from tests.browser.conftest import home_of, watched
from tests.browser.console import EMAIL, PASSWORD, Console
from tests.scenarios.processes import Server


def test_the_set_up_link_works_once(console: Console, stranger: Console, set_up_link: str) -> None:
    """The fixture of the console has used it."""
    stranger.page.goto(set_up_link)
    stranger.says("This link has been used")
    console.open("/settings/users")
    console.says(EMAIL)


def test_signing_out_and_in_again(stranger: Console, signed_in_state: object) -> None:
    stranger.sign_in(password="not the password")
    stranger.says("The email address or the password is not right.")
    stranger.page.get_by_label("Password").fill(PASSWORD)
    stranger.press("Sign in")
    stranger.page.wait_for_url("**/settings/notifications")
    stranger.page.get_by_label("User profile").click()
    stranger.press("Sign out")
    stranger.says("You are signed out.")
    stranger.open("/settings/profile")
    expect(stranger.page).to_have_url(stranger.address("/sign-in?next=%2Fsettings%2Fprofile"))


def test_a_viewer_is_invited_looks_and_changes_nothing(chromium: Browser, server: Server, console: Console) -> None:
    console.go_to_settings("Users")
    console.page.get_by_label("Email").fill("vic@example.com")
    console.page.get_by_role("radio", name="viewer").check()
    console.press("Make the link")
    link = console.page.get_by_label("One-time link").input_value()
    with watched(chromium.new_context(), server) as page:
        vic = Console(page, home_of(server))
        page.goto(link)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_label("Password again").fill(PASSWORD)
        vic.press("Create my account")
        page.wait_for_url("**/settings/notifications")
        expect(page.get_by_role("button", name="Add provider group")).to_have_count(0)
        vic.open("/settings/users")
        vic.says("You may look at this, but only an admin may change it")
        page.goto(link)
        vic.says("This link has been used")


def test_the_theme_is_kept(console: Console) -> None:
    console.go_to_settings("Profile")
    for name, theme in [("Dark", "dark"), ("Light", "light"), ("As the browser wishes", "auto")]:
        console.page.get_by_role("radio", name=name).check()
        console.page.get_by_role("button", name="Save").click()
        console.says("Saved.")
        expect(console.page.locator("html")).to_have_attribute("data-theme", theme)


def test_without_script_people_can_sign_in(chromium: Browser, server: Server, signed_in_state: object) -> None:
    with watched(chromium.new_context(java_script_enabled=False), server) as page:
        Console(page, home_of(server)).sign_in()
        page.wait_for_url("**/settings/notifications")


def test_a_stolen_form_is_refused(server: Server, signed_in_state: object) -> None:
    answer = httpx.post(f"http://127.0.0.1:{server.port}/console/sign-in", data={"email": EMAIL, "password": PASSWORD})
    assert answer.status_code == 403
