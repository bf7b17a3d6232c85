"""The deliveries of an installation, queued and looked at from outside, without a process that serves."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pydantic import SecretStr
from sqlalchemy import text

from billhook.accounts.installation import open_installation
from billhook.settings import Settings
from billhook.storage.database import open_database
from tests.delivery.support import make_team, send, set_provider
from tests.scenarios.processes import Billhook
from tests.support import register

OTHERS = """
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


@dataclass(frozen=True)
class Ledger:
    settings: Settings

    @classmethod
    def of(cls, program: Billhook) -> "Ledger":
        """Its environment must name the database and the master key."""
        location, key = (program.environment[f"BILLHOOK_{name}"] for name in ("DATABASE_URL", "MASTER_KEY"))
        return cls(Settings(data_dir=program.data_dir, database_url=SecretStr(location), master_key=SecretStr(key)))

    @property
    def location(self) -> str:
        return self.settings.database_location

    def credentials(self) -> dict[str, str]:
        """Of a new client that may do everything."""

        async def work() -> dict[str, str]:
            async with open_installation(self.settings) as installation:
                return (await register(installation)).credentials

        return asyncio.run(work())

    def group(self, url: str) -> str:
        """The id of a new group with one provider."""
        return asyncio.run(self._queue(url, 0))[0]

    def queue(self, url: str, count: int, *, rate_limit: int | None = None) -> list[str]:
        """Notifications to one provider, in a group of its own. The ids of their deliveries, which receivers see."""
        return asyncio.run(self._queue(url, count, rate_limit))[1]

    async def _queue(self, url: str, count: int, rate_limit: int | None = None) -> tuple[str, list[str]]:
        async with open_installation(self.settings) as installation:
            team = await make_team(installation, name=url, server_url=url)
            await set_provider(team, team.provider, rate_limit=rate_limit)
            sent = await send(team, count)
        return team.group.id, [queued.id for queued in chain.from_iterable(each.deliveries for each in sent)]

    def states(self) -> dict[str, int]:
        return Counter(state for (state,) in self.query("SELECT state FROM deliveries"))

    def pending(self) -> set[str]:
        return _ids(self.query("SELECT id FROM deliveries WHERE state = 'pending'"))

    def delivered(self) -> set[str]:
        return _ids(self.query("SELECT id FROM deliveries WHERE state = 'delivered'"))

    def leased(self) -> set[str]:
        """In flight, as far as the database knows."""
        return _ids(self.query("SELECT id FROM deliveries WHERE lease IS NOT NULL"))

    def attempts(self) -> list[tuple[Any, ...]]:
        return self.query("SELECT delivery_id, number, at_ms, status, error FROM attempts ORDER BY delivery_id, number")

    def let_leases_lapse(self) -> None:
        """The clock moves on: as if nobody had renewed them for the 60 s that they last."""
        self.execute("UPDATE deliveries SET lease_until_ms = 0 WHERE lease IS NOT NULL")

    def let_everything_be_due(self) -> None:
        """The clock moves on past all that makes a delivery wait: its own schedule, and the breaker of its provider."""
        self.execute("UPDATE deliveries SET due_ms = 0 WHERE state = 'pending'")
        self.execute("UPDATE providers SET open_until_ms = 1 WHERE open_until_ms > 0")

    def has_no_visitors(self) -> bool:
        """Whether PostgreSQL has finished all that a killed process had asked of it. SQLite ends with the process."""
        return self.location.startswith("sqlite") or self.query(f"SELECT count(*) {OTHERS}") == [(0,)]

    def is_at_rest(self) -> bool:
        """Whether nobody is in the middle of a transaction, so that one who stands still keeps no lock."""
        if not self.location.startswith("sqlite"):
            return self.query(f"SELECT count(*) {OTHERS} AND state <> 'idle'") == [(0,)]
        path = self.location.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            return True

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        async def work() -> list[tuple[Any, ...]]:
            db = open_database(self.location)
            try:
                async with db.reading() as tx:
                    return [tuple(row) for row in await tx.execute(text(statement))]
            finally:
                await db.close()

        return asyncio.run(work())

    def execute(self, statement: str) -> None:
        async def work() -> None:
            db = open_database(self.location)
            try:
                async with db.transaction() as tx:
                    await tx.execute(text(statement))
            finally:
                await db.close()

        asyncio.run(work())


def _ids(rows: Iterable[tuple[Any, ...]]) -> set[str]:
    return {str(row[0]) for row in rows}
