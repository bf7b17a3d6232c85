"""The users of the organization."""

import re

import httpx

from billhook.accounts.installation import Installation
from billhook.accounts.users import Role
from billhook.app import App
from tests.console.support import add_user, signed_in, submit
from tests.support import another_organization

USERS = "/console/settings/users"


async def test_an_invitation_link_is_shown_once(browser: httpx.AsyncClient) -> None:
    made = await submit(browser, USERS, f"{USERS}/invite", email="bob@example.com", role="viewer")
    (link,) = re.findall(r"http://billhook.test(/console/invitation/[\w-]+)", made.text)
    assert (await browser.get(link)).status_code == 200
    later = (await browser.get(USERS)).text
    assert "bob@example.com" in later
    assert "/console/invitation/" not in later


async def test_an_invitation_is_withdrawn(browser: httpx.AsyncClient) -> None:
    made = await submit(browser, USERS, f"{USERS}/invite", email="bob@example.com", role="viewer")
    (link,) = re.findall(r"http://billhook.test(/console/invitation/[\w-]+)", made.text)
    (action,) = re.findall(rf'action="({USERS}/invitations/\w+/withdraw)"', made.text)
    await submit(browser, USERS, action)
    assert (await browser.get(link)).status_code == 404


async def test_mistakes_are_named_and_what_was_typed_is_kept(browser: httpx.AsyncClient) -> None:
    for email, role, message in [
        ("nonsense", "admin", "must be an email address"),
        ("bob@example.com", "king", "must be one of admin, viewer"),
        ("admin@example.com", "viewer", "there is already a user admin@example.com"),
    ]:
        refused = await submit(browser, USERS, f"{USERS}/invite", email=email, role=role)
        assert refused.status_code in (400, 409)
        assert message in refused.text
        assert f'value="{email}"' in refused.text


async def test_a_role_is_changed_and_holds_at_once(
    app: App, installation: Installation, browser: httpx.AsyncClient
) -> None:
    bob = await add_user(installation, email="bob@example.com", role=Role.VIEWER)
    async with signed_in(app, installation, bob) as theirs:
        assert (await theirs.get(USERS)).status_code == 403
        await submit(browser, USERS, f"{USERS}/{bob.id}/role", role="admin")
        assert (await theirs.get(USERS)).status_code == 200
        await submit(browser, USERS, f"{USERS}/{bob.id}/remove")
        assert (await theirs.get(USERS)).status_code == 303
    assert "bob@example.com" not in (await browser.get(USERS)).text


async def test_who_is_removed_or_demoted_leaves_no_invitation_behind(
    app: App, installation: Installation, browser: httpx.AsyncClient
) -> None:
    for number, (action, fields) in enumerate([("remove", {}), ("role", {"role": "viewer"})]):
        bob = await add_user(installation, email=f"bob{number}@example.com")
        async with signed_in(app, installation, bob) as theirs:
            made = await submit(theirs, USERS, f"{USERS}/invite", email="back@example.com", role="admin")
        (link,) = re.findall(r"http://billhook.test(/console/invitation/[\w-]+)", made.text)
        await submit(browser, USERS, f"{USERS}/{bob.id}/{action}", **fields)
        assert (await browser.get(link)).status_code == 404


async def test_who_gives_up_being_an_admin_is_led_to_a_page_they_may_see(
    installation: Installation, browser: httpx.AsyncClient
) -> None:
    (action,) = re.findall(rf'action="({USERS}/usr_\w+)/role"', (await browser.get(USERS)).text)
    await add_user(installation, email="bob@example.com")
    answer = await submit(browser, USERS, f"{action}/role", role="viewer")
    assert answer.headers["location"] == "/console/settings/profile?done=role"
    assert (await browser.get(answer.headers["location"])).status_code == 200


async def test_the_last_admin_stays(installation: Installation, browser: httpx.AsyncClient) -> None:
    page = (await browser.get(USERS)).text
    (action,) = re.findall(rf'action="({USERS}/usr_\w+)/role"', page)
    await add_user(installation, email="bob@example.com", role=Role.VIEWER)
    for refused in (
        await submit(browser, USERS, f"{action}/role", role="viewer"),
        await submit(browser, USERS, f"{action}/remove"),
    ):
        assert refused.status_code == 409
        assert "last admin" in refused.text
    assert (await browser.get(USERS)).status_code == 200


async def test_people_of_another_organization_are_not_there(
    installation: Installation, browser: httpx.AsyncClient
) -> None:
    eve = await add_user(
        installation, email="eve@example.com", organization_id=await another_organization(installation)
    )
    assert "eve@example.com" not in (await browser.get(USERS)).text
    assert (await submit(browser, USERS, f"{USERS}/{eve.id}/remove")).status_code == 404
    assert (await submit(browser, USERS, f"{USERS}/{eve.id}/role", role="viewer")).status_code == 404
    assert (await submit(browser, USERS, f"{USERS}/nobody/remove")).status_code == 404


async def test_a_viewer_may_do_none_of_it(installation: Installation, viewer: httpx.AsyncClient) -> None:
    bob = await add_user(installation, email="bob@example.com")
    assert (await viewer.get(USERS)).status_code == 403
    for action in ("invite", f"{bob.id}/role", f"{bob.id}/remove", "invitations/x/withdraw"):
        refused = await submit(viewer, "/console/settings/profile", f"{USERS}/{action}", email="x@y", role="admin")
        assert refused.status_code == 403
        assert "only an admin may change it" in refused.text
