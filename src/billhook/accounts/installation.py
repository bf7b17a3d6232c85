"""One installation: a database at the right schema, the master key that belongs to it, and its first organization."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import insert

from billhook.accounts.audit import Actor, note
from billhook.accounts.keyring import Standing, installation, open_vault, read_standing
from billhook.accounts.organizations import create_organization
from billhook.errors import Refusal
from billhook.settings import Settings
from billhook.storage import feed
from billhook.storage.database import Database, open_database
from billhook.storage.master_key import create_master_key, find_master_key, find_other_master_keys
from billhook.storage.migrate import check_schema, is_empty, migrate
from billhook.storage.vault import Vault

FIRST_ORGANIZATION = "Default"


@dataclass(frozen=True)
class Installation:
    settings: Settings
    db: Database
    vault: Vault
    standing: Standing  # of the master key, when the vault was opened


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
        vault, standing = await _unlock(settings, db)
        yield Installation(settings, db, vault, standing)
    finally:
        await db.close()


async def _unlock(settings: Settings, db: Database) -> tuple[Vault, Standing]:
    """The vault of this installation, and the standing it was opened at; an empty database becomes an installation."""
    async with db.reading() as tx:
        standing = await read_standing(tx)
    keys = find_keys(settings, is_new=standing is None)
    if standing is None:
        standing = await _begin(db, Vault(keys[0]).fingerprint)
    async with db.reading() as tx:
        return await open_vault(tx, keys, standing), standing


def find_keys(settings: Settings, *, is_new: bool = False) -> list[str]:
    """The master key, and behind it those that are here beside it while it is rotated."""
    key = find_master_key(settings)
    others = find_other_master_keys(settings)
    if key is not None:
        return [key, *others]
    if others:  # whoever moved the files was stopped in the middle
        return others
    if not is_new:
        raise Refusal(
            f"the master key is missing: set BILLHOOK_MASTER_KEY or put the file back at {settings.master_key_file}"
        )
    return [create_master_key(settings.master_key_file)]


async def _begin(db: Database, fingerprint: str) -> Standing:
    """Make the installation, or return the standing of the one that another process has just made."""
    now = datetime.now(UTC)
    async with db.transaction() as tx:
        await feed.advance(tx)  # one at a time
        if (made := await read_standing(tx)) is not None:
            return made
        await tx.execute(insert(installation).values(id=1, master_key_fingerprint=fingerprint, created_at=now))
        organization = await create_organization(tx, FIRST_ORGANIZATION, now=now)
        actor = Actor("system", organization.id)
        await note(tx, actor, "organization.created", subject=organization.id, now=now, name=organization.name)
    return Standing(fingerprint, None)
