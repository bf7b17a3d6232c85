"""Many rows at once, made by the database itself: ten million finished deliveries, or a million that are due.

`history` makes its rows in Python; these differ less from each other and take a fraction of the time.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from uuid import uuid4

import asyncpg
from sqlalchemy import insert

from bench.backlog import BATCH, MESSAGE, OPERATOR, Door
from bench.engines import STATEMENT_SECONDS, Site
from bench.history import AGE_MS, ATTEMPT_DETAIL, CACHE_KIB, POSTGRES_INDEXES, SQLITE_INDEXES
from billhook.accounts.installation import open_installation
from billhook.delivery.store import State
from billhook.groups import manage, store
from billhook.groups.model import Group, Provider, SigningSecret
from billhook.providers.signing import new_signing_secret
from billhook.storage.ids import first_id, new_id

TABLES = ("notifications", "deliveries", "attempts")
STAMPS = 1000  # moments they are spread over
CHUNK = 1_000_000  # rows of one statement
SHARED = 10  # finished deliveries of one notification
WORK_MEMORY = "512MB"


@dataclass(frozen=True)
class Dialect:
    numbers: str  # the relation `numbers(n)`, from {low} to below {high}
    digits: str  # {n} as 16 digits


POSTGRES = Dialect("generate_series({low}::bigint, {high} - 1) AS numbers(n)", "lpad(({n})::text, 16, '0')")
SQLITE = Dialect(
    "(WITH RECURSIVE up(n) AS (SELECT {low} UNION ALL SELECT n + 1 FROM up WHERE n + 1 < {high}) SELECT n FROM up)"
    " AS numbers",
    "printf('%016d', {n})",
)


@dataclass(frozen=True)
class Rows:
    """`count` deliveries in turn over the doors. Without `due_ms` they are finished, with an attempt each."""

    count: int
    doors: list[Door]
    now_ms: int
    due_ms: int | None = None

    @property
    def shared(self) -> int:
        return SHARED if self.due_ms is None else 1

    def stamps(self) -> list[tuple[int, int, str]]:
        """Ids sort by their moment, as real ones do. The oldest is within the retention, or a worker clears it away."""
        moments = [self.now_ms - AGE_MS + step * AGE_MS // 2 // STAMPS for step in range(STAMPS)]
        return [(number, moment, first_id("dlv", moment)[4:14]) for number, moment in enumerate(moments)]

    def owners(self) -> list[tuple[int, str, str, str]]:
        return [(n, door.organization_id, door.group_id, door.provider_id) for n, door in enumerate(self.doors)]

    def statements(self, dialect: Dialect) -> Iterator[str]:
        for low in range(0, self.count, CHUNK):
            source = self._source(dialect, low, min(low + CHUNK, self.count))
            yield self._notifications(dialect, source)
            yield self._deliveries(dialect, source)
            if self.due_ms is None:
                yield self._attempts(dialect, source)

    def _source(self, dialect: Dialect, low: int, high: int) -> str:
        first = f"n - n % {self.shared}"  # the delivery that the notification is named after
        numbers = dialect.numbers.format(low=low, high=high)
        stamp = f"stamps.number = ({first}) * {STAMPS} / {self.count}"
        owner = f"owners.number = n / {self.shared} % {len(self.doors)}"
        return f"FROM {numbers} JOIN stamps ON {stamp} JOIN owners ON {owner}"

    def _id(self, dialect: Dialect, prefix: str, number: str) -> str:
        return f"'{prefix}_' || stamp || {dialect.digits.format(n=number)}"

    def _notifications(self, dialect: Dialect, source: str) -> str:
        named = self._id(dialect, "ntf", "n")
        values = f"{named}, organization_id, group_id, 'client:bench', '{MESSAGE.title}', '{MESSAGE.content}', moment"
        columns = "id, organization_id, group_id, sender, title, content, created_ms"
        return f"INSERT INTO notifications ({columns}) SELECT {values} {source} WHERE n % {self.shared} = 0"

    def _deliveries(self, dialect: Dialect, source: str) -> str:
        named, told = self._id(dialect, "dlv", "n"), self._id(dialect, "ntf", f"n - n % {self.shared}")
        fate = f"'{State.DELIVERED}', 1, 0, moment, moment, moment + 5, moment + 5, 200"
        if self.due_ms is not None:
            fate = f"'{State.PENDING}', 0, 0, moment, moment, {self.due_ms}, NULL, NULL"
        columns = (
            "id, organization_id, group_id, provider_id, notification_id,"
            " state, attempts, charged, created_ms, since_ms, due_ms, finished_ms, status"
        )
        values = f"{named}, organization_id, group_id, provider_id, {told}, {fate}"
        return f"INSERT INTO deliveries ({columns}) SELECT {values} {source}"

    def _attempts(self, dialect: Dialect, source: str) -> str:
        values = f"{self._id(dialect, 'dlv', 'n')}, 1, moment, 200, '{ATTEMPT_DETAIL}', 'ok'"
        return f"INSERT INTO attempts (delivery_id, number, at_ms, status, detail, body) SELECT {values} {source}"


def copy_doors(site: Site, doors: list[Door], count: int) -> list[Door]:
    """As many as that in all, in turn like those that are there, with ids, groups and secrets of their own."""

    async def work() -> list[Door]:
        async with open_installation(site.settings) as installation:
            async with installation.db.transaction() as tx:
                vault = installation.vault
                models = [
                    await manage.get_provider(tx, vault, None, door.provider_id, author=OPERATOR) for door in doors
                ]
                made = [_copy(model) for model in islice(cycle(models), count - len(doors))]
                for batch in (made[start : start + BATCH] for start in range(0, len(made), BATCH)):
                    await tx.execute(insert(store.groups), [asdict(group) for group, _ in batch])
                    await tx.execute(insert(store.providers), [store.provider_row(vault, each) for _, each in batch])
                return doors + [Door(group.organization_id, group.id, provider.id) for group, provider in made]

    return asyncio.run(work())


def _copy(model: Provider) -> tuple[Group, Provider]:
    group = Group(new_id("grp"), model.organization_id, uuid4().hex, model.created_at)
    secrets = (SigningSecret(new_signing_secret(), None),)
    return group, replace(model, id=new_id("prv"), group_id=group.id, secrets=secrets)


def add_finished(site: Site, doors: list[Door], count: int) -> None:
    _add(site, Rows(count, doors, _now_ms()))


def add_due(site: Site, doors: list[Door], count: int, *, in_seconds: int = 0) -> None:
    """All due at one moment."""
    now_ms = _now_ms()
    _add(site, Rows(count, doors, now_ms, due_ms=now_ms + in_seconds * 1000))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _add(site: Site, rows: Rows) -> None:
    if rows.count == 0:
        return
    if site.engine.postgres is not None:
        asyncio.run(_add_postgres(site.location, rows))
    else:
        _add_sqlite(site, rows)


async def _add_postgres(location: str, rows: Rows) -> None:
    connection = await asyncpg.connect(location, timeout=10, command_timeout=STATEMENT_SECONDS)
    try:
        await connection.execute(f"SET maintenance_work_mem = '{WORK_MEMORY}'")
        await connection.execute("CREATE TEMP TABLE stamps (number bigint PRIMARY KEY, moment bigint, stamp text)")
        owners = "number bigint PRIMARY KEY, organization_id text, group_id text, provider_id text"
        await connection.execute(f"CREATE TEMP TABLE owners ({owners})")
        await connection.copy_records_to_table("stamps", records=rows.stamps())
        await connection.copy_records_to_table("owners", records=rows.owners())
        await connection.execute("ANALYZE stamps; ANALYZE owners")
        indexes = await connection.fetch(POSTGRES_INDEXES, list(TABLES))
        for index in indexes:
            await connection.execute(f'DROP INDEX "{index["name"]}"')
        for statement in rows.statements(POSTGRES):
            await connection.execute(statement)
        for index in indexes:
            await connection.execute(index["made"])
    finally:
        await connection.close()


def _add_sqlite(site: Site, rows: Rows) -> None:
    database = sqlite3.connect(site.sqlite_file)
    database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    database.execute("PRAGMA journal_mode = OFF")  # nobody else is here, and what fails is thrown away
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TEMP TABLE stamps (number INTEGER PRIMARY KEY, moment INTEGER, stamp TEXT)")
    owners = "number INTEGER PRIMARY KEY, organization_id TEXT, group_id TEXT, provider_id TEXT"
    database.execute(f"CREATE TEMP TABLE owners ({owners})")
    database.executemany("INSERT INTO stamps VALUES (?, ?, ?)", rows.stamps())
    database.executemany("INSERT INTO owners VALUES (?, ?, ?, ?)", rows.owners())
    indexes = database.execute(SQLITE_INDEXES, TABLES).fetchall()
    for name, _ in indexes:
        database.execute(f'DROP INDEX "{name}"')
    for statement in rows.statements(SQLITE):
        database.execute(statement)
    for _, made_by in indexes:
        database.execute(made_by)
    database.commit()
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
