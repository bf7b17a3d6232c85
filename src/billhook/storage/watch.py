"""Notice that a process must not go on, as when the schema was migrated past its code, and stop it before it harms."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError

from billhook.errors import Refusal, Unavailable
from billhook.storage.database import Database, Transaction
from billhook.storage.migrate import head_revision, known_revisions, oldest_code

WATCH_SECONDS = 5.0  # one row by its key: no load, and soon enough for a migration that breaks what runs

log = structlog.get_logger(__name__)

Reason = Callable[[Transaction], Awaitable[str | None]]  # a sentence that says why not to go on, or None


async def no_reason(_tx: Transaction) -> str | None:
    return None


class Watch:
    """What this code knows is asked for once: an upgrade in place changes the files under a running process."""

    def __init__(self, db: Database, also: Reason = no_reason) -> None:
        self._db, self._also, self._head, self._known = db, also, head_revision(), known_revisions()
        self._reason: str | None = None

    def refuse_if_outgrown(self) -> None:
        if self._reason is not None:
            raise Refusal(self._reason)

    async def run(self, stop: Callable[[], None], *, every_seconds: float) -> None:
        """Until the code is too old; then it calls `stop`, once."""
        while True:
            await self._look()
            if self._reason is not None:
                break
            await asyncio.sleep(every_seconds)
        log.error("this process must not go on: stopping", reason=self._reason)
        stop()

    async def _look(self) -> None:
        try:
            async with self._db.reading() as tx:
                self._reason = self._outgrown(await oldest_code(tx)) or await self._also(tx)
        except Unavailable:
            return  # whoever needs the database says so
        except SQLAlchemyError:
            log.exception("could not ask which code the schema is made for; trying again")

    def _outgrown(self, oldest: str) -> str | None:
        if oldest in self._known:
            return None
        return (
            f"the database schema was migrated and needs {oldest} or later,"
            f" this program is {self._head}: install the newer Billhook"
        )


@asynccontextmanager
async def watching(
    db: Database, stop: Callable[[], None], *, also: Reason = no_reason, every_seconds: float = WATCH_SECONDS
) -> AsyncIterator[Watch]:
    watch = Watch(db, also)
    running = asyncio.create_task(watch.run(stop, every_seconds=every_seconds))
    try:
        yield watch
    finally:
        running.cancel()
        await asyncio.wait([running])
