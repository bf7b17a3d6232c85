"""One's own profile."""

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.accounts.signin import FAILURES_PER_ACCOUNT
from billhook.app import App
from tests.console.support import PASSWORD, add_user, signed_in, submit

PROFILE = "/console/settings/profile"
NEW = "another password"


async def test_the_password_is_changed_by_who_knows_it_and_other_sessions_end(
    app: App, installation: Installation
) -> None:
    ada = await add_user(installation, email="ada@example.com")
    async with signed_in(app, installation, ada) as here, signed_in(app, installation, ada) as there:
        fields = {"current_password": PASSWORD, "password": NEW, "password_again": NEW}
        changed = await submit(here, PROFILE, f"{PROFILE}/password", **fields)
        assert changed.headers["location"] == f"{PROFILE}?done=password"
        assert (await here.get(PROFILE)).status_code == 200
        assert (await there.get(PROFILE)).status_code == 303
        page = "/console/sign-in"
        assert (await submit(there, page, page, email=ada.email, password=PASSWORD)).status_code == 400
        assert (await submit(there, page, page, email=ada.email, password=NEW)).status_code == 303


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"current_password": "wrong", "password": NEW, "password_again": NEW}, "is not your password"),
        ({"current_password": PASSWORD, "password": NEW, "password_again": "x"}, "is not the same"),
        ({"current_password": PASSWORD, "password": "short", "password_again": "short"}, "must have 8 to"),
    ],
)
async def test_a_mistake_changes_nothing_and_is_named(
    viewer: httpx.AsyncClient, fields: dict[str, str], message: str
) -> None:
    refused = await submit(viewer, PROFILE, f"{PROFILE}/password", **fields)
    assert refused.status_code == 400
    assert message in refused.text
    assert NEW not in refused.text


async def test_the_password_cannot_be_guessed_without_end(viewer: httpx.AsyncClient) -> None:
    fields = {"current_password": "wrong", "password": NEW, "password_again": NEW}
    for _ in range(FAILURES_PER_ACCOUNT):
        assert (await submit(viewer, PROFILE, f"{PROFILE}/password", **fields)).status_code == 400
    refused = await submit(viewer, PROFILE, f"{PROFILE}/password", **(fields | {"current_password": PASSWORD}))
    assert refused.status_code == 429
    assert "retry-after" in refused.headers


async def test_sessions_are_listed_and_ended(app: App, installation: Installation) -> None:
    ada = await add_user(installation, email="ada@example.com")
    async with signed_in(app, installation, ada) as here, signed_in(app, installation, ada) as there:
        page = (await here.get(PROFILE)).text
        assert page.count("this one") == 1
        address = page.split(f'action="{PROFILE}/sessions/')[1].split('"')[0]
        await submit(here, PROFILE, f"{PROFILE}/sessions/{address}")
        assert (await there.get(PROFILE)).status_code == 303
    async with signed_in(app, installation, ada) as one, signed_in(app, installation, ada) as other:
        await submit(one, PROFILE, f"{PROFILE}/sessions/end-others")
        assert (await other.get(PROFILE)).status_code == 303
        assert (await one.get(PROFILE)).text.count("this one") == 1


async def test_the_theme_is_theirs(viewer: httpx.AsyncClient) -> None:
    assert 'data-theme="auto"' in (await viewer.get(PROFILE)).text
    await submit(viewer, PROFILE, f"{PROFILE}/theme", theme="dark")
    assert 'data-theme="dark"' in (await viewer.get(PROFILE)).text
    assert (await submit(viewer, PROFILE, f"{PROFILE}/theme", theme="<pink>")).status_code == 400
