"""Fill a database with what a busy year leaves behind, in bulk: finished deliveries, and a backlog that must wait.

The rows are those that the product writes, but straight into the tables: a million in a minute or two instead of ten.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import orjson
from sqlalchemy import update

from bench.backlog import MESSAGE, Door
from bench.engines import STATEMENT_SECONDS, Site
from billhook.delivery.store import State
from billhook.groups.store import providers
from billhook.storage.database import open_database
from billhook.storage.ids import first_id

HOUR_MS = 3600 * 1000
AGE_MS = 10 * 24 * HOUR_MS  # of the oldest: within the retention, or the worker would clear it away meanwhile
SAME_MOMENT = 100  # rows that share a millisecond
CACHE_KIB = 500_000
ATTEMPT_DETAIL = orjson.dumps(
    {
        "address": "127.0.0.1:80",
        "timings": {"dns": None, "connect": 0.2, "tls": None, "first_byte": 1.5, "total": 1.7},
        "headers": [],
        "truncated": False,
    }
).decode()

NOTIFICATIONS = ("id", "organization_id", "group_id", "sender", "title", "content", "created_ms")
OWNED = ("id", "organization_id", "group_id", "provider_id", "notification_id")
DELIVERIES = (*OWNED, "state", "attempts", "charged", "created_ms", "since_ms", "due_ms", "finished_ms", "status")
ATTEMPTS = ("delivery_id", "number", "at_ms", "status", "detail", "body")

# Made again behind the rows, which takes about half of the time. Primary keys stay.
POSTGRES_INDEXES = """SELECT indexname AS name, indexdef AS made FROM pg_indexes
    WHERE schemaname = 'public' AND tablename = ANY($1) AND indexname LIKE 'ix%'"""
SQLITE_INDEXES = (
    "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name IN (?, ?, ?) AND name LIKE 'ix%'"
)

Rows = Iterator[tuple[Any, ...]]
Table = tuple[str, tuple[str, ...], Callable[[], Rows]]


@dataclass(frozen=True)
class Past:
    """Which rows: every second one is finished, of `finished`; the others wait, of `later` and `broken` in turn."""

    rows: int
    now_ms: int
    finished: list[Door]
    later: list[Door]  # not due for hours
    broken: list[Door]  # due, behind an open breaker

    def tables(self) -> list[Table]:
        return [
            ("notifications", NOTIFICATIONS, self._notifications),
            ("deliveries", DELIVERIES, self._deliveries),
            ("attempts", ATTEMPTS, self._attempts),
        ]

    def _each(self) -> Iterator[tuple[str, int, int, Door]]:
        """The tail of its ids, its number, its moment and its door; ids sort by their moment, as real ones do."""
        start, stamp, moment = self.now_ms - AGE_MS, "", 0
        step = AGE_MS / 2 / max(self.rows, 1)
        for number in range(self.rows):
            if number % SAME_MOMENT == 0:
                moment = start + int(number * step)
                stamp = first_id("dlv", moment)[4:14]
            yield f"{stamp}{number:016d}", number, moment, self._door(number)

    def _door(self, number: int) -> Door:
        doors = self.finished if number % 2 == 0 else self.later if number % 4 == 1 else self.broken
        return doors[number // 4 % len(doors)]

    def _notifications(self) -> Rows:
        for tail, _, moment, door in self._each():
            owner = (door.organization_id, door.group_id, "client:bench")
            yield (f"ntf_{tail}", *owner, MESSAGE.title, MESSAGE.content, moment)

    def _deliveries(self) -> Rows:
        for tail, number, moment, door in self._each():
            owner = (door.organization_id, door.group_id, door.provider_id, f"ntf_{tail}")
            fate: tuple[Any, ...]
            if number % 2 == 0:
                fate = (State.DELIVERED.value, 1, 0, moment, moment, moment + 5, moment + 5, 200)
            else:
                due_ms = self.now_ms + 6 * HOUR_MS + number if number % 4 == 1 else moment
                fate = (State.PENDING.value, 0, 0, moment, moment, due_ms, None, None)
            yield (f"dlv_{tail}", *owner, *fate)

    def _attempts(self) -> Rows:
        for tail, number, moment, _ in self._each():
            if number % 2 == 0:
                yield (f"dlv_{tail}", 1, moment, 200, ATTEMPT_DETAIL, "ok")


def fill(site: Site, rows: int, *, finished: list[Door], later: list[Door], broken: list[Door]) -> None:
    """`rows` deliveries, half of them finished with an attempt each. The breakers of `broken` are open for hours."""
    past = Past(rows, time.time_ns() // 1_000_000, finished, later, broken)
    if site.engine.postgres is not None:
        asyncio.run(_fill_postgres(site.location, past))
    else:
        _fill_sqlite(site, past)
    asyncio.run(_open_breakers(site.location, past))
    site.settle()


async def _open_breakers(location: str, past: Past) -> None:
    opened = {
        "open_until_ms": past.now_ms + 6 * HOUR_MS,
        "openings": 6,
        "failures": 20,
        "failed_attempts": 20,
        "failing_since_ms": past.now_ms - HOUR_MS,
    }
    db = open_database(location)
    try:
        async with db.transaction() as tx:
            ids = [door.provider_id for door in past.broken]
            await tx.execute(update(providers).where(providers.c.id.in_(ids)).values(**opened))
    finally:
        await db.close()


async def _fill_postgres(location: str, past: Past) -> None:
    connection = await asyncpg.connect(location, timeout=10, command_timeout=STATEMENT_SECONDS)
    try:
        await connection.execute("SET maintenance_work_mem = '512MB'")
        indexes = await connection.fetch(POSTGRES_INDEXES, [name for name, *_ in past.tables()])
        for index in indexes:
            await connection.execute(f'DROP INDEX "{index["name"]}"')
        for name, columns, made in past.tables():
            await connection.copy_records_to_table(name, records=made(), columns=columns)
        for index in indexes:
            await connection.execute(index["made"])
    finally:
        await connection.close()


def _fill_sqlite(site: Site, past: Past) -> None:
    database = sqlite3.connect(site.sqlite_file)
    database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    database.execute("PRAGMA journal_mode = OFF")  # nobody else is here, and what fails is thrown away
    database.execute("PRAGMA synchronous = OFF")
    indexes = database.execute(SQLITE_INDEXES, [name for name, *_ in past.tables()]).fetchall()
    for name, _ in indexes:
        database.execute(f'DROP INDEX "{name}"')
    for name, columns, made in past.tables():
        places = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608 - names of ours
        database.executemany(statement, made())
    for _, made_by in indexes:
        database.execute(made_by)
    database.commit()
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
