"""Links that make a user, once."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import select

from billhook.accounts import invitations
from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation
from billhook.accounts.invitations import GOOD_FOR, set_up_token
from billhook.accounts.organizations import find_organization
from billhook.accounts.users import Role, User, create_user, users
from billhook.errors import InvalidParameters, InvitationNotFound, UserConflict
from billhook.storage.database import Database
from billhook.storage.vault import Vault
from tests.accounts.people import NOW, OPERATOR, organization, password_hash, person


async def set_up(installation: Installation, token: str, email: str = "ada@example.com") -> User:
    async with installation.db.transaction() as tx:
        return await invitations.set_up(
            tx, installation.vault, token, email=email, password_hash=password_hash(), now=NOW
        )


async def invite(db: Database, owner: str, *, email: str = "bob@example.com", role: Role = Role.VIEWER) -> str:
    async with db.transaction() as tx:
        _, token = await invitations.invite(tx, owner, email=email, role=role, actor=OPERATOR, now=NOW)
    return token


async def accept(db: Database, token: str, *, after: timedelta = timedelta()) -> User:
    async with db.transaction() as tx:
        return await invitations.accept_invitation(tx, token, password_hash=password_hash(), now=NOW + after)


async def test_the_set_up_link_makes_the_first_admin_and_no_other(installation: Installation) -> None:
    token = set_up_token(installation.vault)
    made = await set_up(installation, token)
    assert made.role is Role.ADMIN
    async with installation.db.reading() as tx:
        assert made.organization_id == (await find_organization(tx, None)).id
        assert not await invitations.may_set_up(tx, installation.vault, token)
    with pytest.raises(InvitationNotFound):
        await set_up(installation, token, "eve@example.com")


async def test_of_many_at_once_one_becomes_the_first_admin(installation: Installation) -> None:
    token = set_up_token(installation.vault)
    tries = [set_up(installation, token, f"user{n}@example.com") for n in range(5)]
    made = [each for each in await asyncio.gather(*tries, return_exceptions=True) if isinstance(each, User)]
    assert len(made) == 1


async def test_a_user_made_by_the_operator_ends_the_set_up_link(installation: Installation) -> None:
    async with installation.db.transaction() as tx:
        owner = await find_organization(tx, None)
        given = {"email": "ada@example.com", "password_hash": password_hash(), "role": Role.VIEWER}
        await create_user(tx, owner.id, **given, actor=OPERATOR, now=NOW)  # type: ignore[arg-type]
    with pytest.raises(InvitationNotFound):
        await set_up(installation, set_up_token(installation.vault))


@pytest.mark.parametrize("token", ["", "x", "é\0", set_up_token(Vault("another master key of 32 characters"))])
async def test_no_other_token_sets_up(installation: Installation, token: str) -> None:
    with pytest.raises(InvitationNotFound):
        await set_up(installation, token)


async def test_a_bad_address_leaves_the_set_up_link_good(installation: Installation) -> None:
    token = set_up_token(installation.vault)
    with pytest.raises(InvalidParameters, match="email"):
        await set_up(installation, token, "nonsense")
    assert (await set_up(installation, token)).email == "ada@example.com"


async def test_an_invitation_makes_the_user_it_names_once(db: Database) -> None:
    owner = await organization(db)
    token = await invite(db, owner)
    made = await accept(db, token)
    assert (made.email, made.role, made.organization_id) == ("bob@example.com", Role.VIEWER, owner)
    with pytest.raises(InvitationNotFound):
        await accept(db, token)


async def test_an_invitation_ends_after_seven_days(db: Database) -> None:
    token = await invite(db, await organization(db))
    with pytest.raises(InvitationNotFound):
        await accept(db, token, after=GOOD_FOR)
    await accept(db, token, after=GOOD_FOR - timedelta(seconds=1))


async def test_the_token_of_an_invitation_is_not_stored(db: Database) -> None:
    token = await invite(db, await organization(db))
    async with db.reading() as tx:
        assert token not in str((await tx.execute(select(invitations.invitations))).one())


async def test_inviting_again_ends_the_link_before(db: Database) -> None:
    owner = await organization(db)
    first, second = await invite(db, owner), await invite(db, owner, email=" BOB@example.com", role=Role.ADMIN)
    with pytest.raises(InvitationNotFound):
        await accept(db, first)
    assert (await accept(db, second)).role is Role.ADMIN


async def test_who_is_a_user_is_not_invited(db: Database) -> None:
    bob = await person(db, "bob@example.com")
    with pytest.raises(UserConflict, match="already a user"):
        await invite(db, bob.organization_id)


async def test_a_user_of_another_organization_is_not_given_away(db: Database) -> None:
    await person(db, "bob@example.com")
    token = await invite(db, await organization(db, "Another"))
    with pytest.raises(UserConflict):
        await accept(db, token)


async def test_the_invitations_of_who_may_no_longer_invite_are_withdrawn(db: Database) -> None:
    token = await invite(db, await organization(db))
    async with db.transaction() as tx:
        await invitations.withdraw_all_by(tx, Actor("user:somebody-else"))
        assert await invitations.find_invitation(tx, token, now=NOW)
        await invitations.withdraw_all_by(tx, OPERATOR)
    with pytest.raises(InvitationNotFound):
        await accept(db, token)


async def test_who_became_a_user_meanwhile_cannot_accept(db: Database) -> None:
    token = await invite(db, await organization(db))
    await person(db, "bob@example.com")
    with pytest.raises(UserConflict):
        await accept(db, token)


async def test_an_invitation_is_withdrawn_only_by_its_own_organization(db: Database) -> None:
    ours, theirs = await organization(db), await organization(db, "Another")
    token = await invite(db, ours)
    async with db.transaction() as tx:
        (listed,) = await invitations.list_invitations(tx, ours, now=NOW)
        await invitations.withdraw(tx, theirs, listed.id, actor=OPERATOR, now=NOW)
        assert await invitations.find_invitation(tx, token, now=NOW)
        await invitations.withdraw(tx, ours, "no id", actor=OPERATOR, now=NOW)
        await invitations.withdraw(tx, ours, listed.id, actor=OPERATOR, now=NOW)
        assert await invitations.list_invitations(tx, ours, now=NOW) == []
    with pytest.raises(InvitationNotFound):
        await accept(db, token)


async def test_there_is_an_end_to_open_invitations(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "MOST_OPEN", 2)
    owner = await organization(db)
    await invite(db, owner, email="a@example.com")
    await invite(db, owner, email="b@example.com")
    with pytest.raises(UserConflict, match="open invitations"):
        await invite(db, owner, email="c@example.com")


async def test_ended_invitations_are_forgotten(db: Database) -> None:
    await invite(db, await organization(db))
    async with db.transaction() as tx:
        assert await invitations.purge(tx, now=NOW + GOOD_FOR - timedelta(seconds=1), limit=10) == 0
        assert await invitations.purge(tx, now=NOW + GOOD_FOR, limit=10) == 1
        assert (await tx.execute(select(users))).all() == []
