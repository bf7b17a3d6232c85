"""One installation: a database at the right schema, the master key that belongs to it, and its first organization."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Column, Integer, Table, Text, insert, select

from billhook.accounts.audit import Actor, note
from billhook.accounts.organizations import create_organization
from billhook.errors import Refusal
from billhook.settings import Settings
from billhook.storage import feed
from billhook.storage.database import Database, Transaction, open_database
from billhook.storage.master_key import create_master_key, find_master_key
from billhook.storage.migrate import check_schema, is_empty, migrate
from billhook.storage.types import Moment, metadata
from billhook.storage.vault import Vault

FIRST_ORGANIZATION = "Default"

installation = Table(
    "installation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("master_key_fingerprint", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)


@dataclass(frozen=True)
class Installation:
    settings: Settings
    db: Database
    vault: Vault


@asynccontextmanager
async def open_installation(settings: Settings, *, may_migrate: bool = False) -> AsyncIterator[Installation]:
    """Ready to work on, or a Refusal that says what is wrong.

    An empty SQLite file gets its schema from whoever comes first, an older one only from a process that may migrate:
    a command must not change the schema under a running server.
    """
    db = open_database(settings.database_location)
    try:
        if db.is_sqlite and (may_migrate or await is_empty(db)):
            await migrate(db)
        await check_schema(db)
        yield Installation(settings, db, await _unlock(settings, db))
    finally:
        await db.close()


async def _unlock(settings: Settings, db: Database) -> Vault:
    """The vault of this installation; on an empty database, the installation is made."""
    async with db.reading() as tx:
        fingerprint = await _fingerprint(tx)
    key = find_master_key(settings)
    if key is None and fingerprint is not None:
        raise Refusal(
            f"the master key is missing: set BILLHOOK_MASTER_KEY or put the file back at {settings.master_key_file}"
        )
    vault = Vault(key or create_master_key(settings.master_key_file))
    if (fingerprint or await _begin(db, vault)) != vault.fingerprint:
        raise Refusal("the master key is not the one this database was made with: what it holds cannot be read")
    return vault


async def _begin(db: Database, vault: Vault) -> str:
    """Make the installation, or return the fingerprint of the one that another process has just made."""
    now = datetime.now(UTC)
    async with db.transaction() as tx:
        await feed.advance(tx)  # one at a time
        if (made := await _fingerprint(tx)) is not None:
            return made
        await tx.execute(insert(installation).values(id=1, master_key_fingerprint=vault.fingerprint, created_at=now))
        organization = await create_organization(tx, FIRST_ORGANIZATION, now=now)
        actor = Actor("system", organization.id)
        await note(tx, actor, "organization.created", subject=organization.id, now=now, name=organization.name)
    return vault.fingerprint


async def _fingerprint(tx: Transaction) -> str | None:
    found = await tx.execute(select(installation.c.master_key_fingerprint).where(installation.c.id == 1))
    return found.scalar_one_or_none()
