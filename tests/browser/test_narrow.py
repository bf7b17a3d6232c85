"""On a phone, what one can do with a row of a table is in sight without scrolling to the side."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import home_of, watched
from tests.browser.console import Console
from tests.scenarios.processes import Server

PHONE = {"width": 360, "height": 740}


@pytest.fixture
def phone(chromium: Browser, server: Server, signed_in_state: str) -> Iterator[Console]:
    context = chromium.new_context(storage_state=signed_in_state, viewport=PHONE)  # type: ignore[arg-type]
    with watched(context, server) as page:
        yield Console(page, home_of(server))


def must_be_in_sight(console: Console, button: str) -> None:
    found = console.page.get_by_role("button", name=button, exact=True).first
    expect(found).to_be_visible()
    box = found.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]


def test_people_and_invitations_can_be_removed(phone: Console) -> None:
    phone.open("/settings/users")
    phone.page.get_by_label("Email", exact=True).fill("somebody.with.a.long.name@department.example.com")
    phone.press("Make the link")
    must_be_in_sight(phone, "Remove")
    must_be_in_sight(phone, "Withdraw")


def test_sessions_can_be_ended(phone: Console, stranger: Console) -> None:
    stranger.sign_in()
    phone.open("/settings/profile")
    must_be_in_sight(phone, "End")
