"""What a person does in the console, in their words."""

from dataclasses import dataclass

from playwright.sync_api import Page, expect

EMAIL = "ada@example.com"
PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Console:
    page: Page
    home: str  # such as http://127.0.0.1:8080/console

    def address(self, path: str) -> str:
        return self.home + path

    def open(self, path: str = "/") -> None:
        self.page.goto(self.address(path))

    def sign_in(self, email: str = EMAIL, password: str = PASSWORD) -> None:
        self.open("/sign-in")
        self.page.get_by_label("Email").fill(email)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()

    def set_up(self) -> None:
        """On the page of the set-up link."""
        self.page.get_by_label("Email").fill(EMAIL)
        self.page.get_by_label("Password", exact=True).fill(PASSWORD)
        self.page.get_by_label("Password again").fill(PASSWORD)
        self.press("Create the first admin")
        self.page.wait_for_url("**/settings/notifications")

    def go_to_settings(self, tab: str) -> None:
        """User profile, then Settings, then the tab: as the seed has it."""
        self.page.get_by_label("User profile").click()
        self.page.locator(".profile").get_by_role("link", name="Settings").click()
        self.page.get_by_role("navigation", name="Settings").get_by_role("link", name=tab).click()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def says(self, text: str) -> None:
        """Waits for it."""
        expect(self.page.get_by_text(text).first).to_be_visible()
