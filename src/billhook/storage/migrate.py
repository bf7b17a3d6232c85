"""Bring the schema to this version of the code, or say why it does not fit."""

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from billhook.errors import Refusal
from billhook.storage.database import Database, Transaction
from billhook.storage.types import metadata

MIGRATION_LOCK = 0x62696C6C  # any fixed number: PostgreSQL's advisory lock that lets one process migrate at a time


async def migrate(db: Database) -> tuple[str | None, str]:
    """Apply what is missing, all of it or nothing. Returns the revisions before and after."""
    async with db.transaction() as tx:
        if not db.is_sqlite:
            await tx.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        before = await _revision(tx)
        if before is not None and before not in known_revisions():
            raise Refusal(_newer(before))
        await tx.run_sync(_upgrade)
        return before, head_revision()


async def check_schema(db: Database) -> None:
    """Refuse to work on a schema that is not exactly this code's."""
    async with db.reading() as tx:
        found = await _revision(tx)
    if found == head_revision():
        return
    if found is None:
        raise Refusal("the database is empty: run `billhook migrate` first")
    if found not in known_revisions():
        raise Refusal(_newer(found))
    raise Refusal(
        f"the database schema ({found}) is older than this program ({head_revision()}): run `billhook migrate`"
    )


async def is_empty(db: Database) -> bool:
    async with db.reading() as tx:
        return await _revision(tx) is None


def head_revision() -> str:
    head = _scripts().get_current_head()
    assert head is not None
    return head


def known_revisions() -> set[str]:
    return {script.revision for script in _scripts().walk_revisions()}


def _newer(found: str) -> str:
    return f"the database schema ({found}) is newer than this program ({head_revision()}): install the newer Billhook"


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", "billhook.storage:migrations")
    return ScriptDirectory.from_config(config)


async def _revision(tx: Transaction) -> str | None:
    return await tx.run_sync(lambda connection: MigrationContext.configure(connection).get_current_revision())


def _upgrade(connection: Connection) -> None:
    scripts = _scripts()
    head = scripts.get_current_head()
    assert head is not None
    with EnvironmentContext(
        Config(), scripts, fn=lambda revision, _context: scripts._upgrade_revs(head, revision)
    ) as environment:
        environment.configure(connection=connection, target_metadata=metadata)
        environment.run_migrations()
