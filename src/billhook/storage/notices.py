"""Word from process to process that something was committed: NOTIFY on PostgreSQL; on SQLite, nothing."""

import asyncio
from collections.abc import Callable

import asyncpg
import structlog
from sqlalchemy import func, select

from billhook.errors import Unavailable
from billhook.storage.database import Database, Transaction

AGAIN_SECONDS = 1.0

log = structlog.get_logger(__name__)


async def announce(tx: Transaction, channel: str) -> None:
    """Heard by all who follow the channel, when the transaction is committed."""
    if tx.dialect.name != "sqlite":
        await tx.execute(select(func.pg_notify(channel, "")))


async def follow(db: Database, channel: str, heard: Callable[[], None]) -> None:
    """Call `heard` for every word, and after each interruption, since some may have been missed. Until cancelled."""
    while not db.is_sqlite:
        try:
            await _listen(db, channel, heard)
        except (Unavailable, OSError, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
            log.info("not listening for new work; trying again", detail=str(error))
        await asyncio.sleep(AGAIN_SECONDS)


async def _listen(db: Database, channel: str, heard: Callable[[], None]) -> None:
    """Until the connection ends."""
    ended = asyncio.Event()
    async with db.alone() as connection:
        connection.add_termination_listener(lambda _connection: ended.set())
        await connection.add_listener(channel, lambda *_notice: heard())
        heard()
        await ended.wait()
