"""A browser on the pages of the console: signed in, with the cookie and the form token of a real one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache

import httpx

from billhook.accounts import sessions
from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation
from billhook.accounts.organizations import find_organization
from billhook.accounts.passwords import hash_password
from billhook.accounts.users import Role, User, create_user
from billhook.app import App
from billhook.console.context import HOME
from tests.support import BASE_URL, FORM_TOKEN

PASSWORD = "a password of the tests"


@cache
def password_hash() -> str:
    """Of PASSWORD; made once, for it takes a while."""
    return hash_password(PASSWORD)


async def add_user(
    installation: Installation, *, email: str, role: Role = Role.ADMIN, organization_id: str | None = None
) -> User:
    """In the first organization unless told otherwise."""
    async with installation.db.transaction() as tx:
        owner = await find_organization(tx, organization_id)
        return await create_user(
            tx,
            owner.id,
            email=email,
            password_hash=password_hash(),
            role=role,
            actor=Actor("cli:test"),
            now=datetime.now(UTC),
        )


@asynccontextmanager
async def signed_in(app: App, installation: Installation, user: User) -> AsyncIterator[httpx.AsyncClient]:
    """Their browser. It does not follow redirects by itself."""
    async with installation.db.transaction() as tx:
        token = await sessions.begin(tx, user, address="127.0.0.1", agent="tests", now=datetime.now(UTC))
    transport = httpx.ASGITransport(app.asgi, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser:
        browser.cookies.set("billhook-session", token, domain=httpx.URL(BASE_URL).host, path=HOME)
        yield browser


async def submit(browser: httpx.AsyncClient, page: str, action: str, **fields: str | Sequence[str]) -> httpx.Response:
    """Open the page, and send a form from it to the action; both are whole paths, such as `/console/settings/users`."""
    return await browser.post(action, data={"form_token": await form_token(browser, page), **fields})


async def form_token(browser: httpx.AsyncClient, page: str) -> str:
    """What the forms of that page carry."""
    shown = await browser.get(page)
    found = FORM_TOKEN.search(shown.text)
    assert found is not None, f"{page} answers {shown.status_code} and has no form"
    return found[1]
