"""The schema after migrating is the one the code describes; a schema that does not fit is refused."""

import asyncio
import importlib
import pkgutil
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

import billhook
from billhook.errors import Refusal
from billhook.storage import migrate as module
from billhook.storage import migrations
from billhook.storage.database import Database, open_database
from billhook.storage.migrate import check_schema, head_revision, is_empty, known_revisions, migrate
from billhook.storage.types import metadata

AT_ONCE = 6

LATER = '''
"""A migration of the next release."""
from alembic import op

revision = "later"
down_revision = "{head}"


def upgrade() -> None:
    op.execute("CREATE TABLE later (id INTEGER)")
    {then}
'''


@pytest.fixture
async def empty(empty_location: str) -> AsyncIterator[Database]:
    opened = open_database(empty_location)
    yield opened
    await opened.close()


def import_everything() -> None:
    """Tables register when the module that defines them is imported."""
    for found in pkgutil.walk_packages(billhook.__path__, "billhook."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def become_next_release(folder: Path, patch: pytest.MonkeyPatch, *, then: str = "") -> None:
    """The program with one more migration: Alembic reads a copy of our folder that has it."""
    copied = folder / "migrations"
    shutil.copytree(Path(str(migrations.__file__)).parent, copied)
    (copied / "versions" / "later.py").write_text(LATER.format(head=head_revision(), then=then))
    config = Config()
    config.set_main_option("script_location", str(copied))
    patch.setattr(module, "_scripts", lambda: ScriptDirectory.from_config(config))


async def tables(db: Database) -> set[str]:
    async with db.reading() as tx:
        return set(await tx.run_sync(lambda connection: inspect(connection).get_table_names()))


async def set_revision(db: Database, revision: str, *, oldest_code: str) -> None:
    """As the `migrate` of a later release would leave it."""
    async with db.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
        await tx.execute(text("UPDATE schema_floor SET oldest_code = :oldest"), {"oldest": oldest_code})


async def test_migrating_gives_exactly_the_tables_of_the_code(empty: Database) -> None:
    import_everything()
    await migrate(empty)

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, metadata))

    async with empty.reading() as tx:
        assert await tx.run_sync(differences) == []


async def test_migrating_says_where_it_came_from_and_where_it_got(empty: Database) -> None:
    assert await migrate(empty) == (None, head_revision())
    assert await migrate(empty) == (head_revision(), head_revision())


async def test_an_empty_database_is_known_as_such_until_it_is_migrated(empty: Database) -> None:
    assert await is_empty(empty)
    await migrate(empty)
    assert not await is_empty(empty)


async def test_a_migrated_database_fits(db: Database) -> None:
    await check_schema(db)


async def test_an_empty_database_is_refused(empty: Database) -> None:
    with pytest.raises(Refusal, match="the database is empty: run `billhook migrate` first"):
        await check_schema(empty)


async def test_a_newer_schema_is_refused(db: Database) -> None:
    await set_revision(db, "9999", oldest_code="9998")
    with pytest.raises(Refusal, match=r"the database schema \(9999\) is newer than this program .* install the newer"):
        await check_schema(db)


async def test_a_newer_schema_is_not_migrated(db: Database) -> None:
    await set_revision(db, "9999", oldest_code="9998")
    with pytest.raises(Refusal, match="is newer than this program"):
        await migrate(db)


async def test_an_older_schema_is_refused(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = head_revision()
    become_next_release(tmp_path, monkeypatch)
    with pytest.raises(Refusal, match=rf"\({older}\) is older than this program \(later\): run `billhook migrate`"):
        await check_schema(db)


async def test_an_older_schema_is_migrated(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = head_revision()
    become_next_release(tmp_path, monkeypatch)
    assert await migrate(db) == (older, "later")
    assert "later" in await tables(db)


async def test_a_migration_that_fails_leaves_nothing_behind(
    empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become_next_release(tmp_path, monkeypatch, then="raise RuntimeError('halfway')")
    with pytest.raises(RuntimeError, match="halfway"):
        await migrate(empty)
    assert await tables(empty) == set()


async def test_several_can_migrate_at_once_and_one_of_them_does(empty_location: str) -> None:
    async def one_of_many() -> tuple[str | None, str]:
        opened = open_database(empty_location)
        try:
            return await migrate(opened)
        finally:
            await opened.close()

    results = await asyncio.gather(*(asyncio.to_thread(asyncio.run, one_of_many()) for _ in range(AT_ONCE)))
    head = head_revision()
    assert sorted(results, key=str) == [(head, head)] * (AT_ONCE - 1) + [(None, head)]


def test_migrations_form_one_line() -> None:
    assert head_revision() in known_revisions()
    assert len(module._scripts().get_heads()) == 1
