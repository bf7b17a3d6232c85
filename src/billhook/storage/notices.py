"""Word from process to process that something was committed: NOTIFY on PostgreSQL; on SQLite, nothing."""

import asyncio
from collections.abc import Callable

import asyncpg
import structlog
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from billhook.errors import Unavailable
from billhook.storage.database import OPENED_AS, Database, Transaction

AGAIN_SECONDS = 1.0

log = structlog.get_logger(__name__)


async def announce(tx: Transaction, channel: str) -> None:
    """Heard by all others who follow the channel, when the transaction is committed."""
    if tx.dialect.name != "sqlite":
        await tx.execute(select(func.pg_notify(channel, _name(tx.engine))))


async def follow(db: Database, channel: str, heard: Callable[[], None]) -> None:
    """Call `heard` for every word of others, and after each interruption, since some may have been missed.

    Until cancelled. Who says something itself knows it, and sooner.
    """
    while not db.is_sqlite:
        try:
            await _listen(db, channel, heard)
        except (Unavailable, OSError, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
            log.info("not listening for new work; trying again", detail=getattr(error, "detail", None) or str(error))
        await asyncio.sleep(AGAIN_SECONDS)


async def _listen(db: Database, channel: str, heard: Callable[[], None]) -> None:
    """Until the connection ends."""
    ended, ours = asyncio.Event(), _name(db.writer)

    def hear(_connection: object, _process: int, _channel: str, name: object) -> None:
        if name != ours:
            heard()

    async with db.alone() as connection:
        connection.add_termination_listener(lambda _connection: ended.set())
        await connection.add_listener(channel, hear)
        heard()
        await ended.wait()


def _name(engine: AsyncEngine) -> str:
    return str(engine.get_execution_options()[OPENED_AS])
