"""A form that comes when its session has ended is not lost, and nobody else can have it sent."""

import re

import httpx
import pytest
from sqlalchemy import delete

from billhook.accounts.installation import Installation
from billhook.accounts.sessions import sessions
from billhook.console.forms import Form
from billhook.console.held import Held, held_in, inside
from tests.console.support import PASSWORD, form_token
from tests.support import BASE_URL

GROUPS = "/console/settings/notifications"
ADD = "/console/settings/notifications/groups"
FROM_HERE = {"Origin": BASE_URL, "Referer": f"{BASE_URL}{GROUPS}?after=x"}
HOSTILE = '"><script>hurt()</script>\u202e'
HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


async def end_sessions(installation: Installation) -> None:
    async with installation.db.transaction() as tx:
        await tx.execute(delete(sessions))


def hidden(answer: httpx.Response) -> dict[str, str]:
    """As a browser would send them."""
    pairs = HIDDEN.findall(answer.text)
    return {name: value.replace("&#34;", '"').replace("&lt;", "<").replace("&gt;", ">") for name, value in pairs}


async def add_group(
    browser: httpx.AsyncClient, token: str, name: str = HOSTILE, headers: dict[str, str] | None = None
) -> httpx.Response:
    return await browser.post(ADD, data={"form_token": token, "name": name}, headers=FROM_HERE | (headers or {}))


async def sign_in(browser: httpx.AsyncClient, page: httpx.Response, password: str = PASSWORD) -> httpx.Response:
    typed = {"email": "admin@example.com", "password": password}
    return await browser.post("/console/sign-in", data=hidden(page) | typed, headers=FROM_HERE)


async def test_what_was_typed_is_there_again_after_signing_in(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    token = await form_token(browser, GROUPS)
    await end_sessions(installation)
    asked = await add_group(browser, token)
    assert asked.status_code == 403
    assert "Your session has ended" in asked.text
    assert "<script>hurt" not in asked.text
    refused = await sign_in(browser, asked, "wrong password")
    assert refused.status_code == 400
    entered = await sign_in(browser, refused)
    assert entered.status_code == 200
    assert "Not sent yet" in entered.text
    assert (
        '<button class="primary" autofocus>Send it now</button> <a href="/console/settings/notifications?after=x">'
        in (entered.text)
    )
    assert f'action="{ADD}"' in entered.text
    assert HOSTILE not in (await browser.get(GROUPS)).text, "nothing is done before they say so"
    sent = await browser.post(ADD, data=hidden(entered), headers=FROM_HERE)
    assert (sent.status_code, sent.headers["location"][:40]) == (303, f"{ADD}/grp"[:40])
    assert "&lt;script&gt;hurt()" in (await browser.get(GROUPS)).text


async def test_a_page_from_before_signing_in_anew_can_still_be_sent(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    stale = "0" * 64
    offered = await add_group(browser, stale, "Typed before")
    assert offered.status_code == 403
    assert "You have signed in anew" in offered.text
    assert "Typed before" in offered.text
    assert "Typed before" not in (await browser.get(GROUPS)).text
    assert (await browser.post(ADD, data=hidden(offered), headers=FROM_HERE)).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"{BASE_URL}.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_what_another_site_sends_is_not_kept(
    browser: httpx.AsyncClient, installation: Installation, headers: dict[str, str]
) -> None:
    refused = await add_group(browser, "0" * 64, "Theirs", headers)
    assert refused.status_code == 403
    assert "Theirs" not in refused.text
    await end_sessions(installation)
    asked = await add_group(browser, "0" * 64, "Theirs", headers)
    assert asked.status_code == 303
    assert asked.headers["location"].startswith("/console/sign-in")


async def test_what_does_not_say_where_it_comes_from_is_not_kept(browser: httpx.AsyncClient) -> None:
    refused = await browser.post(ADD, data={"form_token": "0" * 64, "name": "Theirs"})
    assert refused.status_code == 403
    assert "Theirs" not in refused.text


async def test_passwords_are_not_kept(browser: httpx.AsyncClient, installation: Installation) -> None:
    await end_sessions(installation)
    action, typed = "/console/settings/profile/password", {"current_password": PASSWORD, "password": "another one"}
    asked = await browser.post(action, data={"form_token": "0" * 64, **typed}, headers=FROM_HERE)
    assert asked.status_code == 303
    assert asked.headers["location"] == "/console/sign-in?next=%2Fsettings%2Fnotifications%3Fafter%3Dx"


async def test_more_than_a_form_can_bring_along_is_not_kept(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    await end_sessions(installation)
    assert (await add_group(browser, "0" * 64, "x" * 510_000)).status_code == 303


async def test_the_script_is_told_in_the_page_and_learns_the_new_token(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    token = await form_token(browser, GROUPS)
    anew = await add_group(browser, "0" * 64, headers={"X-Fragment": "test-result"})
    assert (anew.status_code, anew.headers["x-form-token"]) == (403, token)
    assert anew.text.lstrip().startswith('<div id="test-result">')
    await end_sessions(installation)
    gone = await add_group(browser, token, headers={"X-Fragment": "test-result"})
    assert (gone.status_code, "x-form-token" in gone.headers) == (403, False)
    assert "You are no longer signed in" in gone.text


def test_a_reader_sees_what_they_typed_and_no_secret() -> None:
    pairs = [("name", "Pager"), ("header_key", "X-Key"), ("header_value", "s3cret"), ("rate_limit", " "), ("do", "add")]
    held = Held("/a", "/b", pairs)
    assert held.typed == [("Name", "Pager"), ("Header key", "X-Key")]
    assert held_in(Form(held.fields)) == held


def test_nothing_is_sent_outside() -> None:
    assert inside("//evil.example") == inside("https://evil.example") == inside("/\\evil") == ""
    assert held_in(Form([("held-action", "//evil.example"), ("held:name", "x")])) is None
