"""Ways in and out."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from billhook.accounts import invitations, sessions, users
from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation
from billhook.accounts.invitations import set_up_token
from billhook.accounts.organizations import find_organization
from billhook.accounts.signin import FAILURES_PER_ACCOUNT
from billhook.accounts.users import Role
from billhook.app import App, running_app
from billhook.settings import Settings
from tests.console.support import PASSWORD, add_user, form_token, password_hash, submit
from tests.support import BASE_URL

SIGN_IN = "/console/sign-in"
START = "/console/settings/notifications"
NEW = {"password": PASSWORD, "password_again": PASSWORD}


@pytest.fixture
async def stranger(app: App) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that has never been here."""
    transport = httpx.ASGITransport(app.asgi, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as opened:
        yield opened


async def sign_in(browser: httpx.AsyncClient, password: str = PASSWORD, **fields: str) -> httpx.Response:
    return await submit(browser, SIGN_IN, SIGN_IN, email="ada@example.com", password=password, **fields)


async def invitation(installation: Installation, email: str = "bob@example.com") -> str:
    now = datetime.now(UTC)
    async with installation.db.transaction() as tx:
        owner = await find_organization(tx, None)
        actor = Actor("cli:test", owner.id)
        _, token = await invitations.invite(tx, owner.id, email=email, role=Role.VIEWER, actor=actor, now=now)
    return f"/console/invitation/{token}"


async def test_the_set_up_link_makes_the_first_admin_and_signs_them_in(
    stranger: httpx.AsyncClient, installation: Installation
) -> None:
    link = f"/console/set-up/{set_up_token(installation.vault)}"
    made = await submit(stranger, link, link, email="ada@example.com", **NEW)
    assert (made.status_code, made.headers["location"]) == (303, START)
    assert "ada@example.com" in (await stranger.get("/console/settings/users")).text
    again = await stranger.get(link)
    assert again.status_code == 404
    assert "has been used" in again.text


async def test_mistakes_at_set_up_are_named_and_the_link_stays_good(
    stranger: httpx.AsyncClient, installation: Installation
) -> None:
    link = f"/console/set-up/{set_up_token(installation.vault)}"
    unlike = await submit(stranger, link, link, email="ada@example.com", password=PASSWORD, password_again="other")
    assert unlike.status_code == 400
    assert "is not the same" in unlike.text
    assert 'value="ada@example.com"' in unlike.text
    short = await submit(stranger, link, link, email="ada@example.com", password="short", password_again="short")
    assert "must have 8 to" in short.text
    assert PASSWORD not in unlike.text
    assert (await submit(stranger, link, link, email="ada@example.com", **NEW)).status_code == 303


async def test_a_made_up_link_is_nothing(stranger: httpx.AsyncClient) -> None:
    for link in ("/console/set-up/x", "/console/invitation/x"):
        assert (await stranger.get(link)).status_code == 404
        assert (await submit(stranger, SIGN_IN, link, email="a@b", **NEW)).status_code == 404


async def test_signing_in_leads_to_where_one_wanted_to_go(
    stranger: httpx.AsyncClient, installation: Installation
) -> None:
    await add_user(installation, email="ada@example.com")
    asked = await stranger.get("/console/settings/users?a=1&b=2")
    assert asked.status_code == 303
    page = await stranger.get(asked.headers["location"])
    assert 'name="next" value="/settings/users?a=1&amp;b=2"' in page.text
    entered = await sign_in(stranger, next="/settings/users?a=1&b=2")
    assert entered.headers["location"] == "/console/settings/users?a=1&b=2"


@pytest.mark.parametrize("elsewhere", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/\t/evil"])
async def test_signing_in_leads_nowhere_else(
    stranger: httpx.AsyncClient, installation: Installation, elsewhere: str
) -> None:
    await add_user(installation, email="ada@example.com")
    assert (await sign_in(stranger, next=elsewhere)).headers["location"] == START


async def test_a_wrong_password_says_so_and_keeps_the_address(
    stranger: httpx.AsyncClient, installation: Installation
) -> None:
    await add_user(installation, email="ada@example.com")
    refused = await sign_in(stranger, "wrong password")
    assert refused.status_code == 400
    assert "The email address or the password is not right" in refused.text
    assert 'value="ada@example.com"' in refused.text
    assert "wrong password" not in refused.text
    assert "billhook-session" not in str(refused.headers)


async def test_too_many_failures_have_to_wait(stranger: httpx.AsyncClient, installation: Installation) -> None:
    await add_user(installation, email="ada@example.com")
    for _ in range(FAILURES_PER_ACCOUNT):
        assert (await sign_in(stranger, "wrong")).status_code == 400
    refused = await sign_in(stranger)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 300
    assert "Too many failed attempts; try again in 5 minutes." in refused.text


async def test_the_session_is_new_at_each_sign_in_and_gone_after_sign_out(
    stranger: httpx.AsyncClient, installation: Installation
) -> None:
    await add_user(installation, email="ada@example.com")
    await sign_in(stranger)
    first = stranger.cookies["billhook-session"]
    stranger.cookies.set("billhook-visit", "x", domain="billhook.test", path="/console")
    await sign_in(stranger)
    second = stranger.cookies["billhook-session"]
    assert first != second
    left = await submit(stranger, "/console/settings/profile", "/console/sign-out")
    assert left.headers["location"] == "/console/sign-in?done=signed-out"
    for token in (first, second):
        stranger.cookies.set("billhook-session", token, domain="billhook.test", path="/console")
        assert (await stranger.get("/console/settings/profile")).status_code == 303


async def test_an_invitation_makes_a_user_once(stranger: httpx.AsyncClient, installation: Installation) -> None:
    await add_user(installation, email="ada@example.com")
    link = await invitation(installation)
    assert "bob@example.com" in (await stranger.get(link)).text
    unlike = await submit(stranger, link, link, password=PASSWORD, password_again="other")
    assert "is not the same" in unlike.text
    assert (await submit(stranger, link, link, **NEW)).headers["location"] == START
    assert "viewer" in (await stranger.get("/console/settings/profile")).text
    assert (await stranger.get(link)).status_code == 404


async def test_a_form_of_another_browser_is_refused(stranger: httpx.AsyncClient, installation: Installation) -> None:
    await add_user(installation, email="ada@example.com")
    token = await form_token(stranger, SIGN_IN)
    fields = {"email": "ada@example.com", "password": PASSWORD}
    stranger.cookies.clear()
    for given in ({}, {"form_token": token}, {"form_token": "é"}):
        assert (await stranger.post(SIGN_IN, data={**fields, **given})).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[x"},
    ],
)
async def test_a_form_sent_by_another_site_is_refused(
    stranger: httpx.AsyncClient, installation: Installation, headers: dict[str, str]
) -> None:
    await add_user(installation, email="ada@example.com")
    fields = {"email": "ada@example.com", "password": PASSWORD, "form_token": await form_token(stranger, SIGN_IN)}
    assert (await stranger.post(SIGN_IN, data=fields, headers=headers)).status_code == 403
    ours = {"Sec-Fetch-Site": "same-origin", "Origin": BASE_URL}
    assert (await stranger.post(SIGN_IN, data=fields, headers=ours)).status_code == 303


async def test_cookies_are_for_this_host_over_https_only(installation: Installation) -> None:
    settings = Settings(**{**installation.settings.model_dump(), "base_url": "https://billhook.test/hub"})
    user = await add_user(installation, email="ada@example.com")
    moved = replace(installation, settings=settings)
    async with running_app(moved) as app:
        transport = httpx.ASGITransport(app.asgi, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="https://billhook.test") as browser:
            page = "/hub/console/sign-in"
            entered = await submit(browser, page, page, email=user.email, password=PASSWORD)
            shown = await browser.get("/hub/console/settings/notifications")
            assert (await browser.get("/hub")).headers["location"] == "/hub/console/"
    assert entered.headers["location"] == "/hub/console/settings/notifications"
    cookies = entered.headers.get_list("set-cookie")
    (session,) = [each for each in cookies if each.startswith("__Host-billhook-session=")]
    assert session.endswith("; HttpOnly; Path=/; SameSite=lax; Secure")
    assert entered.headers["strict-transport-security"] == shown.headers["strict-transport-security"]
    assert shown.headers["strict-transport-security"] == "max-age=31536000"


async def test_a_cookie_without_https_stays_within_the_console(
    stranger: httpx.AsyncClient, installation: Installation
) -> None:
    await add_user(installation, email="ada@example.com")
    entered = await sign_in(stranger)
    (session,) = [each for each in entered.headers.get_list("set-cookie") if each.startswith("billhook-session=")]
    assert session.endswith("; HttpOnly; Path=/console; SameSite=lax")
    assert "strict-transport-security" not in entered.headers


async def test_a_password_changed_while_somebody_signs_in_with_the_old_one_keeps_them_out(
    stranger: httpx.AsyncClient, installation: Installation
) -> None:
    user = await add_user(installation, email="ada@example.com")
    async with installation.db.transaction() as tx:
        assert await users.still_has(tx, user, password_hash())
        await users.change_password(tx, user, "another hash", actor=Actor("cli:test"), now=datetime.now(UTC))
        assert not await users.still_has(tx, user, password_hash())
    assert (await sign_in(stranger)).status_code == 400


async def test_a_page_that_keeps_itself_up_to_date_is_no_visit(
    stranger: httpx.AsyncClient, installation: Installation
) -> None:
    user = await add_user(installation, email="ada@example.com")
    await sign_in(stranger)
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)

    async def seen() -> datetime:
        async with installation.db.reading() as tx:
            (session,) = await sessions.list_sessions(tx, user.id, now=datetime.now(UTC))
        return session.seen_at

    async with installation.db.transaction() as tx:
        (session,) = await sessions.list_sessions(tx, user.id, now=datetime.now(UTC))
        await sessions.mark_seen(tx, session, address="192.0.2.1", now=an_hour_ago)
    await stranger.get("/console/settings/profile", headers={"X-Fragment": "x"})
    assert await seen() == an_hour_ago
    await stranger.get("/console/settings/profile")
    assert await seen() > an_hour_ago


async def test_the_root_leads_to_the_console(stranger: httpx.AsyncClient) -> None:
    for path, target in [
        ("/", "/console/"),
        ("/console", "/console/"),
        ("/console/", START),
        ("/console/settings", START),
    ]:
        assert (await stranger.get(path)).headers["location"] == target
