"""An installation opens only with its own master key and schema, and is made exactly once."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from billhook.accounts.audit import read_trail
from billhook.accounts.installation import FIRST_ORGANIZATION, Installation, open_installation
from billhook.accounts.organizations import list_organizations
from billhook.errors import Refusal
from billhook.settings import Settings
from billhook.storage.database import Database, open_database
from billhook.storage.vault import Vault
from tests.support import on_postgres, on_sqlite

AT_ONCE = 5
KEY = SecretStr("k" * 40)


def settings_for(location: str, folder: Path, *, key: SecretStr | None = None) -> Settings:
    return Settings(data_dir=folder, database_url=SecretStr(location), master_key=key or SecretStr(""))


async def opened(settings: Settings, *, may_migrate: bool = False) -> str:
    """Open and close it; the fingerprint of its master key."""
    async with open_installation(settings, may_migrate=may_migrate) as installation:
        return installation.vault.fingerprint


@asynccontextmanager
async def database(location: str) -> AsyncIterator[Database]:
    db = open_database(location)
    try:
        yield db
    finally:
        await db.close()


async def organization_names(location: str) -> list[str]:
    async with database(location) as db, db.reading() as tx:
        return [organization.name for organization in await list_organizations(tx)]


async def test_the_first_opening_makes_an_organization_and_notes_it(installation: Installation) -> None:
    async with installation.db.reading() as tx:
        (organization,) = await list_organizations(tx)
        (entry,) = await read_trail(tx)
    assert organization.name == FIRST_ORGANIZATION
    assert (entry.actor, entry.action, entry.subject) == ("system", "organization.created", organization.id)


async def test_opening_again_changes_nothing(settings: Settings, location: str) -> None:
    assert await opened(settings) == await opened(settings)
    assert await organization_names(location) == [FIRST_ORGANIZATION]


async def all_at_once(work: list[Coroutine[Any, Any, str]]) -> list[str | BaseException]:
    """Each on a thread and loop of its own, as processes would."""
    return await asyncio.gather(*(asyncio.to_thread(asyncio.run, one) for one in work), return_exceptions=True)


async def test_several_that_open_at_once_make_one_organization(settings: Settings, location: str) -> None:
    results = await all_at_once([opened(settings) for _ in range(AT_ONCE)])
    assert len(set(results)) == 1, results
    assert await organization_names(location) == [FIRST_ORGANIZATION]


@on_sqlite
async def test_several_that_serve_a_new_file_at_once_make_one_organization(empty_location: str, tmp_path: Path) -> None:
    settings = settings_for(empty_location, tmp_path)
    results = await all_at_once([opened(settings, may_migrate=True) for _ in range(AT_ONCE)])
    assert len(set(results)) == 1, results
    assert await organization_names(empty_location) == [FIRST_ORGANIZATION]


async def test_of_several_with_different_keys_one_wins_and_the_others_are_told(location: str, tmp_path: Path) -> None:
    keys = [SecretStr(str(turn) * 40) for turn in range(AT_ONCE)]
    results = await all_at_once([opened(settings_for(location, tmp_path, key=key)) for key in keys])
    refused = [result for result in results if isinstance(result, Refusal)]
    assert len(refused) == AT_ONCE - 1, results
    assert await organization_names(location) == [FIRST_ORGANIZATION]


async def test_a_master_key_is_made_when_there_is_none(settings: Settings) -> None:
    fingerprint = await opened(settings)
    assert Vault(settings.master_key_file.read_text().strip()).fingerprint == fingerprint


async def test_a_given_master_key_is_used_and_no_file_is_made(location: str, tmp_path: Path) -> None:
    settings = settings_for(location, tmp_path, key=KEY)
    assert await opened(settings) == Vault(KEY.get_secret_value()).fingerprint
    assert not settings.master_key_file.exists()


async def test_a_missing_master_key_is_refused_and_not_made_anew(settings: Settings) -> None:
    await opened(settings)
    settings.master_key_file.unlink()
    with pytest.raises(Refusal, match=f"the master key is missing: .* {settings.master_key_file}"):
        await opened(settings)
    assert not settings.master_key_file.exists()


async def test_a_wrong_master_key_is_refused(settings: Settings, location: str, tmp_path: Path) -> None:
    await opened(settings)
    with pytest.raises(Refusal, match="the master key is not the one this database was made with"):
        await opened(settings_for(location, tmp_path, key=KEY))


async def test_a_short_master_key_is_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="BILLHOOK_MASTER_KEY: .* at least 32 characters"):
        await opened(settings_for(location, tmp_path, key=SecretStr("short")))


@on_sqlite
async def test_an_empty_file_gets_its_schema_from_whoever_comes_first(empty_location: str, tmp_path: Path) -> None:
    await opened(settings_for(empty_location, tmp_path))
    assert await organization_names(empty_location) == [FIRST_ORGANIZATION]


@on_postgres
@pytest.mark.parametrize("may_migrate", [True, False])
async def test_an_empty_postgres_is_refused(empty_location: str, tmp_path: Path, may_migrate: bool) -> None:
    with pytest.raises(Refusal, match="the database is empty: run `billhook migrate` first"):
        await opened(settings_for(empty_location, tmp_path), may_migrate=may_migrate)


@pytest.mark.parametrize("may_migrate", [True, False])
async def test_a_newer_schema_is_refused(settings: Settings, location: str, may_migrate: bool) -> None:
    async with database(location) as db, db.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        await tx.execute(text("UPDATE schema_floor SET oldest_code = '9999'"))
    with pytest.raises(Refusal, match="is newer than this program"):
        await opened(settings, may_migrate=may_migrate)
