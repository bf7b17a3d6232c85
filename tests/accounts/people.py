"""Users to test with."""

from datetime import UTC, datetime
from functools import cache

from argon2 import PasswordHasher

from billhook.accounts.audit import Actor
from billhook.accounts.organizations import create_organization
from billhook.accounts.users import Role, User, create_user
from billhook.storage.database import Database

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
PASSWORD = "correct horse"
OPERATOR = Actor("cli:test")


@cache
def password_hash() -> str:
    """A cheap one: what it takes to verify is said in the hash, and most tests are about something else."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


async def organization(db: Database, name: str = "Acme") -> str:
    async with db.transaction() as tx:
        return (await create_organization(tx, name, now=NOW)).id


async def person(db: Database, email: str, *, organization_id: str | None = None, role: Role = Role.ADMIN) -> User:
    owner = organization_id or await organization(db)
    async with db.transaction() as tx:
        return await create_user(
            tx, owner, email=email, password_hash=password_hash(), role=role, actor=OPERATOR, now=NOW
        )
