"""Groups with providers, notifications to them, and ways to look at what became of those."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, event, select, text, update

from billhook.accounts.installation import Installation
from billhook.delivery import queue
from billhook.delivery.accept import Accepted, Answer, Send, accept
from billhook.delivery.fairness import Limits
from billhook.delivery.queue import Claim, Leased
from billhook.delivery.store import State, deliveries
from billhook.groups import store
from billhook.groups.directory import Directory
from billhook.groups.model import Group, Provider
from billhook.groups.store import providers
from billhook.providers.kinds import Message
from billhook.storage.clock import now_ms
from billhook.storage.database import Database, Transaction
from billhook.storage.ids import new_id
from tests.groups.setting import make_group, make_provider

LIMITS = Limits(per_provider=10, per_organization=50, per_process=500)
SENDER = "client:test"


@dataclass(frozen=True)
class Team:
    """A group with one provider, or several."""

    installation: Installation
    group: Group
    providers: list[Provider]

    @property
    def provider(self) -> Provider:
        return self.providers[0]


async def make_team(installation: Installation, count: int = 1, name: str = "Ops", **fields: Any) -> Team:
    """Further fields are those of its providers."""
    organization_id = fields.pop("organization_id", None)
    group = await make_group(installation, name, organization_id=organization_id)
    if not count:
        return Team(installation, group, [])
    first, _ = await make_provider(installation, group.id, **fields)
    more = [replace(first, id=new_id("prv")) for _ in range(count - 1)]
    async with installation.db.transaction() as tx:
        for provider in more:
            await store.insert_provider(tx, installation.vault, provider)
    return Team(installation, group, [first, *more])


def a_send(team: Team, title: str = "Title", content: str = "Content", **fields: Any) -> Send:
    given = {"organization_id": team.group.organization_id, "group_id": team.group.id, "sender": SENDER} | fields
    return Send(**given, message=Message(title, content))


async def answers_to(installation: Installation, sends: Sequence[Send]) -> list[Answer]:
    async with installation.db.transaction() as tx:
        return await accept(tx, Directory(installation.vault), sends)


async def send(team: Team, count: int = 1) -> list[Accepted]:
    answers = await answers_to(team.installation, [a_send(team, f"Title {number}") for number in range(count)])
    accepted = [answer for answer in answers if isinstance(answer, Accepted)]
    assert len(accepted) == count, answers
    return accepted


async def send_one(team: Team) -> str:
    """The id of its only delivery."""
    ((accepted),) = await send(team)
    ((queued),) = accepted.deliveries
    return queued.id


async def claim(
    installation: Installation, *, after: str = "", free: int = 500, limits: Limits = LIMITS, db: Database | None = None
) -> Claim:
    async with (db or installation.db).transaction() as tx:
        return await queue.claim(tx, Directory(installation.vault), after=after, free=free, limits=limits)


def by_provider(leased: Sequence[Leased], team: Team) -> list[int]:
    """How many of them each provider of the team has."""
    return [sum(each.provider.id == provider.id for each in leased) for provider in team.providers]


async def now_of(db: Database) -> int:
    async with db.reading() as tx:
        return int((await tx.execute(select(now_ms()))).scalar_one())


async def set_values(db: Database, table: Table, *which: ColumnElement[bool], **values: Any) -> None:
    """What could only come about with time, or by a process that died."""
    async with db.transaction() as tx:
        await tx.execute(update(table).where(*which).values(**values))


async def set_deliveries(db: Database, *ids: str, **values: Any) -> None:
    await set_values(db, deliveries, deliveries.c.id.in_(ids), **values)


async def set_provider(team: Team, provider: Provider, **values: Any) -> None:
    await set_values(team.installation.db, providers, providers.c.id == provider.id, **values)


async def rows_of(db: Database, table: Table, *which: ColumnElement[bool]) -> list[Row[Any]]:
    async with db.reading() as tx:
        return list((await tx.execute(select(table).where(*which).order_by(*table.primary_key.columns))).all())


async def delivery_of(db: Database, delivery_id: str) -> Row[Any]:
    return (await rows_of(db, deliveries, deliveries.c.id == delivery_id))[0]


async def provider_of(team: Team, provider: Provider | None = None) -> Row[Any]:
    return (await rows_of(team.installation.db, providers, providers.c.id == (provider or team.provider).id))[0]


async def states_of(db: Database, *which: ColumnElement[bool]) -> list[str]:
    """Of deliveries, in the order of their ids."""
    return [row.state for row in await rows_of(db, deliveries, *which)]


class Halting:
    """A transaction that waits before its second statement, so that another can come between."""

    def __init__(self, tx: Transaction) -> None:
        self.dialect = tx.dialect
        self.halted, self.go_on = asyncio.Event(), asyncio.Event()
        self._tx, self._statements = tx, 0

    async def execute(self, *args: Any, **options: Any) -> Any:
        self._statements += 1
        if self._statements == 2:
            self.halted.set()
            await self.go_on.wait()
        return await self._tx.execute(*args, **options)


HISTORY = 30_000  # finished deliveries
BACKLOG = 3000  # ready ones, of the first provider

MULTIPLY = """
    INSERT INTO deliveries (id, organization_id, group_id, provider_id, notification_id, state, attempts, charged,
        created_ms, since_ms, due_ms)
    WITH RECURSIVE count(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM count WHERE i < {many})
    SELECT '{prefix}' || i, organization_id, group_id, provider_id, notification_id, '{state}', 1, 1, 1, 1, 1000 + i
    FROM count, (SELECT * FROM deliveries ORDER BY id LIMIT 1) AS one
"""


async def fill(team: Team, *, history: int = HISTORY, is_known: bool = True) -> None:
    """A long history and a long backlog of one provider, and one delivery each for the others.

    Unless it is known, the engine's statistics are from before the backlog came.
    """
    await send(team)
    past = text(MULTIPLY.format(many=history, prefix="dlv_x", state=State.DELIVERED))
    waiting = text(MULTIPLY.format(many=BACKLOG, prefix="dlv_y", state=State.PENDING))
    look = text("ANALYZE")
    async with team.installation.db.transaction() as tx:
        for statement in (past, waiting, look) if is_known else (past, look, waiting):
            await tx.execute(statement)


@asynccontextmanager
async def statements_of(db: Database) -> AsyncIterator[list[tuple[str, Any]]]:
    """What is executed meanwhile."""
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        seen.append((statement, parameters))

    event.listen(db.writer.sync_engine, "before_cursor_execute", note)
    yield seen
    event.remove(db.writer.sync_engine, "before_cursor_execute", note)


async def plan_of(db: Database, statement: str, parameters: Any) -> list[str]:
    explain = "EXPLAIN QUERY PLAN " if db.is_sqlite else "EXPLAIN "
    async with db.transaction() as tx:
        found = await tx.exec_driver_sql(explain + statement, parameters)
        return [str(row[-1]) for row in found]


async def rows_read(db: Database, statement: str, parameters: Any) -> int:
    """By PostgreSQL, in the greediest step of its plan; what the statement writes is rolled back."""
    async with db.transaction() as tx:
        told = (await tx.exec_driver_sql("EXPLAIN (ANALYZE, FORMAT JSON) " + statement, parameters)).scalar_one()
        await tx.rollback()
    return max(map(_rows_of_step, _steps(told[0]["Plan"])))


def _steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _steps(inner)


def _rows_of_step(step: dict[str, Any]) -> int:
    names = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
    return int(sum(step.get(name, 0) for name in names) * step["Actual Loops"])
