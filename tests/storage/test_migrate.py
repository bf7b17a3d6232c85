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
from billhook.storage.database import Database, Transaction, open_database
from billhook.storage.migrate import check_schema, floor, head_revision, is_empty, known_revisions, migrate, oldest_code
from billhook.storage.types import metadata
from tests.support import on_postgres, until

AT_ONCE = 6

LATER = '''
"""A migration of the next release."""
from alembic import op

revision = "{revision}"
down_revision = "{before}"
{floor}


def upgrade() -> None:
    op.execute("CREATE TABLE {revision} (id INTEGER)")
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


class Release:
    """The program with later migrations, one by one: Alembic reads a copy of our folder that has them."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.versions = folder / "migrations" / "versions"
        shutil.copytree(Path(str(migrations.__file__)).parent, self.versions.parent)
        config = Config()
        config.set_main_option("script_location", str(self.versions.parent))
        patch.setattr(module, "_scripts", lambda: ScriptDirectory.from_config(config))

    def add(self, revision: str, *, oldest_code: str | None = None, then: str = "") -> None:
        floor = f'oldest_code = "{oldest_code}"' if oldest_code else ""
        added = LATER.format(revision=revision, before=head_revision(), floor=floor, then=then)
        (self.versions / f"{revision}.py").write_text(added)

    def take_back(self, revision: str) -> None:
        """Older code again, on whatever the newer has made of the database."""
        (self.versions / f"{revision}.py").unlink()


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    return Release(tmp_path, monkeypatch)


async def tables(db: Database) -> set[str]:
    async with db.reading() as tx:
        return set(await tx.run_sync(lambda connection: inspect(connection).get_table_names()))


async def kept_floor(db: Database) -> str:
    async with db.reading() as tx:
        return await oldest_code(tx)


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


async def test_a_newer_schema_is_refused(db: Database, release: Release) -> None:
    release.add("later")
    await migrate(db)
    release.take_back("later")
    with pytest.raises(Refusal, match=r"the database schema \(later\) is newer than this program .* install the newer"):
        await check_schema(db)


async def test_a_newer_schema_is_not_migrated(db: Database, release: Release) -> None:
    release.add("later")
    await migrate(db)
    release.take_back("later")
    with pytest.raises(Refusal, match="is newer than this program"):
        await migrate(db)


async def test_a_newer_schema_that_is_made_for_this_code_as_well_fits_and_is_left_alone(
    db: Database, release: Release
) -> None:
    head = head_revision()
    release.add("later", oldest_code=head)
    assert await migrate(db) == (head, "later")
    release.take_back("later")
    await check_schema(db)
    assert await migrate(db) == ("later", "later")
    assert await kept_floor(db) == head


async def test_code_older_than_a_schema_is_made_for_is_refused(db: Database, release: Release) -> None:
    release.add("later")
    release.add("latest", oldest_code="later")
    await migrate(db)
    release.take_back("latest")
    await check_schema(db)
    release.take_back("later")
    with pytest.raises(Refusal, match=r"\(latest\) is newer than this program"):
        await check_schema(db)


async def test_no_later_migration_takes_back_what_one_has_broken(db: Database, release: Release) -> None:
    head = head_revision()
    release.add("later")
    release.add("latest", oldest_code=head)
    await migrate(db)
    assert await kept_floor(db) == "later"


async def test_migrating_keeps_the_floor_of_this_code(empty: Database) -> None:
    await migrate(empty)
    assert await kept_floor(empty) == floor()
    assert floor() in known_revisions()


async def test_an_older_schema_is_refused(db: Database, release: Release) -> None:
    older = head_revision()
    release.add("later", oldest_code=older)
    with pytest.raises(Refusal, match=rf"\({older}\) is older than this program \(later\): run `billhook migrate`"):
        await check_schema(db)


async def test_an_older_schema_is_migrated(db: Database, release: Release) -> None:
    older = head_revision()
    release.add("later")
    assert await migrate(db) == (older, "later")
    assert "later" in await tables(db)


async def test_a_migration_that_fails_leaves_nothing_behind(empty: Database, release: Release) -> None:
    release.add("later", then="raise RuntimeError('halfway')")
    with pytest.raises(RuntimeError, match="halfway"):
        await migrate(empty)
    assert await tables(empty) == set()


@on_postgres
async def test_a_migration_that_gets_into_a_deadlock_with_those_at_work_begins_again(
    db: Database, release: Release
) -> None:
    release.add("later", then='[op.execute(f"LOCK TABLE {name}") for name in ("providers", "feed")]')
    async with db.transaction() as tx:
        await tx.execute(text("SET LOCAL deadlock_timeout = '60s'"))  # it is the other one who finds out
        await tx.execute(text("SELECT version FROM feed"))
        migrating = asyncio.create_task(migrate(db))
        await until(lambda: waits_for_a_table(tx))
        await tx.execute(text("SELECT id FROM providers"))
    assert (await migrating)[1] == "later"


async def waits_for_a_table(tx: Transaction) -> bool:
    waiting = await tx.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'feed'::regclass"))
    return bool(waiting.scalar_one())


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
