"""Bring the schema to this version of the code, or say why it does not fit.

A migration that older code can live with says so: `oldest_code = "0004"` in it names the revision of the oldest such
code; without it, that is its own. The newest of these names over all migrations is the floor, which the database keeps:
code that does not know the revision named there is too old for the schema.
"""

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, Integer, Table, Text, select, text, update

from billhook.errors import Refusal, Unavailable
from billhook.storage.database import Database, Transaction
from billhook.storage.types import metadata

MIGRATION_LOCK = 0x62696C6C  # any fixed number: PostgreSQL's advisory lock that lets one process migrate at a time
DEADLOCKS = 5  # each costs PostgreSQL a second to find

schema_floor = Table(
    "schema_floor",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("oldest_code", Text, nullable=False),
)


async def migrate(db: Database) -> tuple[str | None, str]:
    """Apply what is missing, all of it or nothing. Returns the revisions before and after.

    Those at work lock tables in an order of their own, so a migration of several tables may have to begin again.
    """
    for _ in range(DEADLOCKS):
        try:
            return await _migrate(db)
        except Unavailable as error:
            if not _is_deadlock(error):
                raise
    return await _migrate(db)


async def _migrate(db: Database) -> tuple[str | None, str]:
    async with db.transaction() as tx:
        if not db.is_sqlite:
            await tx.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        before = await _revision(tx)
        if before is not None and before not in known_revisions():
            await _live_with(tx, before)
            return before, before
        await tx.run_sync(_upgrade)
        await tx.execute(update(schema_floor).where(schema_floor.c.id == 1).values(oldest_code=floor()))
        return before, head_revision()


async def check_schema(db: Database) -> None:
    """Refuse to work on a schema that is older than this code, or newer and not made for it as well."""
    async with db.reading() as tx:
        found = await _revision(tx)
        if found == head_revision():
            return
        if found is None:
            raise Refusal("the database is empty: run `billhook migrate` first")
        if found not in known_revisions():
            await _live_with(tx, found)
            return
    raise Refusal(
        f"the database schema ({found}) is older than this program ({head_revision()}): run `billhook migrate`"
    )


async def is_empty(db: Database) -> bool:
    async with db.reading() as tx:
        return await _revision(tx) is None


async def oldest_code(tx: Transaction) -> str:
    """The revision of the oldest code that the schema is made for."""
    return str((await tx.execute(select(schema_floor.c.oldest_code).where(schema_floor.c.id == 1))).scalar_one())


def head_revision() -> str:
    head = _scripts().get_current_head()
    assert head is not None
    return head


def known_revisions() -> set[str]:
    return {script.revision for script in _scripts().walk_revisions()}


def floor() -> str:
    """The oldest code that can live with all migrations of this code: no later one takes back what one has broken."""
    line = [*_scripts().walk_revisions()][::-1]  # from the first to the newest
    place = {script.revision: number for number, script in enumerate(line)}
    return max((getattr(script.module, "oldest_code", script.revision) for script in line), key=place.__getitem__)


async def _live_with(tx: Transaction, found: str) -> None:
    """On a newer schema: a Refusal, unless it is made for this code as well."""
    if await oldest_code(tx) not in known_revisions():
        raise Refusal(
            f"the database schema ({found}) is newer than this program ({head_revision()}): install the newer Billhook"
        )


def _is_deadlock(error: Unavailable) -> bool:
    return getattr(getattr(error.__cause__, "orig", None), "sqlstate", None) == "40P01"


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
