"""Notice that the schema was migrated past this code while it runs, so that it can stop before it does harm."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from sqlalchemy.exc import SQLAlchemyError

from billhook.errors import Refusal, Unavailable
from billhook.storage.database import Database
from billhook.storage.migrate import head_revision, known_revisions, oldest_code

WATCH_SECONDS = 5.0  # one row by its key: no load, and soon enough for a migration that breaks what runs

log = structlog.get_logger(__name__)


class Watch:
    """What this code knows is asked for once: an upgrade in place changes the files under a running process."""

    def __init__(self, db: Database) -> None:
        self._db, self._head, self._known = db, head_revision(), known_revisions()
        self._outgrown_by: str | None = None

    def refuse_if_outgrown(self) -> None:
        if self._outgrown_by is not None:
            raise Refusal(self._sentence)

    async def run(self, stop: Callable[[], None], *, every_seconds: float) -> None:
        """Until the code is too old; then it calls `stop`, once."""
        while True:
            await self._look()
            if self._outgrown_by is not None:
                break
            await asyncio.sleep(every_seconds)
        log.error("too old for the schema: stopping", reason=self._sentence)
        stop()

    async def _look(self) -> None:
        try:
            async with self._db.reading() as tx:
                oldest = await oldest_code(tx)
        except Unavailable:
            return  # whoever needs the database says so
        except SQLAlchemyError:
            log.exception("could not ask which code the schema is made for; trying again")
            return
        if oldest not in self._known:
            self._outgrown_by = oldest

    @property
    def _sentence(self) -> str:
        return (
            f"the database schema was migrated and needs {self._outgrown_by} or later,"
            f" this program is {self._head}: install the newer Billhook"
        )


@asynccontextmanager
async def watching(
    db: Database, stop: Callable[[], None], *, every_seconds: float = WATCH_SECONDS
) -> AsyncIterator[Watch]:
    watch = Watch(db)
    running = asyncio.create_task(watch.run(stop, every_seconds=every_seconds))
    try:
        yield watch
    finally:
        running.cancel()
        await asyncio.wait([running])
