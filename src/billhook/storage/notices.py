"""Word from process to process, with what was committed: NOTIFY on PostgreSQL; on SQLite, nothing."""

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


async def announce(tx: Transaction, channel: str, word: str = "") -> None:
    """Heard by all others who follow the channel, when the transaction is committed. At most 7,900 bytes."""
    if tx.dialect.name != "sqlite":
        await tx.execute(select(func.pg_notify(channel, f"{_name(tx.engine)} {word}".rstrip())))


async def follow(db: Database, channel: str, heard: Callable[[str], None]) -> None:
    """Call `heard` with every word of others, and with none after each interruption, for some may have been missed.

    Until cancelled. Who says something itself knows it, and sooner.
    """
    while not db.is_sqlite:
        try:
            await _listen(db, channel, heard)
        except (Unavailable, OSError, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
            detail = getattr(error, "detail", None) or str(error)
            log.info("not listening to other processes; trying again", detail=detail)
        await asyncio.sleep(AGAIN_SECONDS)


async def _listen(db: Database, channel: str, heard: Callable[[str], None]) -> None:
    """Until the connection ends."""
    ended, ours = asyncio.Event(), _name(db.writer)

    def hear(_connection: object, _process: int, _channel: str, payload: object) -> None:
        name, _, word = str(payload).partition(" ")
        if name != ours:
            heard(word)

    async with db.alone() as connection:
        connection.add_termination_listener(lambda _connection: ended.set())
        await connection.add_listener(channel, hear)
        heard("")
        await ended.wait()


def _name(engine: AsyncEngine) -> str:
    return str(engine.get_execution_options()[OPENED_AS])
