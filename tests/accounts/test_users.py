"""Users: one per email address, with an argon2id password and a role."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from billhook.accounts.audit import Actor, read_trail
from billhook.accounts.organizations import create_organization
from billhook.accounts.passwords import hash_password, password_matches
from billhook.accounts.users import LONGEST_EMAIL, Role, User, create_user, normal_email, users
from billhook.errors import InvalidParameters, UserConflict
from billhook.storage.database import Database

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
PASSWORD = "correct horse"


async def create(db: Database, email: str, *, role: Role = Role.ADMIN, password: str = PASSWORD) -> User:
    async with db.transaction() as tx:
        owner = await create_organization(tx, "Acme", now=NOW)
        actor = Actor("cli:test", owner.id)
        hashed = hash_password(password)
        return await create_user(tx, owner.id, email=email, password_hash=hashed, role=role, actor=actor, now=NOW)


@pytest.mark.parametrize("role", Role)
async def test_a_user_is_kept_as_made(db: Database, role: Role) -> None:
    made = await create(db, " Ada@Example.COM ", role=role)
    assert (made.email, made.role, made.created_at) == ("ada@example.com", role, NOW)
    async with db.reading() as tx:
        row = (await tx.execute(select(users))).one()
    assert (row.id, row.organization_id, row.email, row.role) == (made.id, made.organization_id, made.email, role)


async def test_the_password_is_kept_only_as_its_hash(db: Database) -> None:
    await create(db, "ada@example.com")
    async with db.reading() as tx:
        row = (await tx.execute(select(users))).one()
    assert PASSWORD not in str(row)
    assert row.password_hash.startswith("$argon2id$")
    assert password_matches(PASSWORD, row.password_hash)


async def test_making_a_user_is_in_the_audit_trail_without_the_password(db: Database) -> None:
    made = await create(db, "ada@example.com", role=Role.VIEWER)
    async with db.reading() as tx:
        (entry,) = await read_trail(tx, subject=made.id)
    assert (entry.actor, entry.action, entry.at) == ("cli:test", "user.created", NOW)
    assert entry.detail == {"email": "ada@example.com", "role": "viewer"}


@pytest.mark.parametrize("again", ["ada@example.com", "ADA@example.com", " ada@EXAMPLE.com"])
async def test_an_email_address_belongs_to_one_user(db: Database, again: str) -> None:
    await create(db, "ada@example.com")
    with pytest.raises(UserConflict, match="there is already a user ada@example.com"):
        await create(db, again)


async def test_a_short_password_makes_no_user(db: Database) -> None:
    with pytest.raises(InvalidParameters, match="password"):
        await create(db, "ada@example.com", password="short")
    async with db.reading() as tx:
        assert (await tx.execute(select(users))).all() == []


@pytest.mark.parametrize(
    "email",
    ["", " ", "ada", "ada@", "@example.com", "a@b@c", "a da@example.com", "ada@exa\nmple.com", "ada\0@example.com"]
    + ["x" * LONGEST_EMAIL + "@example.com"],
)
def test_what_is_no_email_address_is_refused_by_name(email: str) -> None:
    with pytest.raises(InvalidParameters, match="email: must be an email address"):
        normal_email(email)


def test_an_email_address_that_is_not_text_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameters, match="email: must be an email address"):
        normal_email("\udcff@example.com")
