"""Claim, renew and sweep: which deliveries a worker may attempt, for as long as its leases last.

A claim stamps a lease on each delivery; whoever finishes one names the lease, so who lost it cannot write. What a
claim reads is in two small indexes: `ready` is walked provider by provider, however much waits behind each.
"""

import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    FromClause,
    Integer,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    case,
    func,
    literal,
    null,
    select,
    update,
)
from sqlalchemy.engine import Row

from billhook.delivery import fairness, health
from billhook.delivery.fairness import Candidate, Limits
from billhook.delivery.store import IS_PENDING, deliveries, notifications
from billhook.groups.directory import Directory
from billhook.groups.model import Health, Provider, ProviderState
from billhook.groups.store import providers
from billhook.storage.clock import now_ms
from billhook.storage.database import Transaction
from billhook.storage.ids import new_id
from billhook.storage.locks import try_locks
from billhook.storage.rows import pack, rows

LEASE_MS = 60_000  # four times the longest attempt (15 s)
RENEW_SECONDS = 10.0
PAGE = 200  # providers looked at in one claim; the next one goes on behind them
NEVER = 2**31
CLASH_MS = 20  # until the other worker that is claiming for the same organization has finished

OWN = ("id", "organization_id", "version", "state", "rate_limit")
NEEDED = (*OWN, *Health._fields)

IS_DELETED = providers.c.deleted_at.is_not(None).label("is_deleted")

READY = (deliveries.c.state == IS_PENDING, deliveries.c.lease.is_(None))
# The same in words that no index answers, for rows that are found by their ids: a planner with old statistics would
# take the index of what is ready for a short one, and read all of a backlog that has come since.
STILL_READY = case((and_(*READY), 1), else_=0) == 1


class Leased(NamedTuple):
    """A delivery that is this worker's to attempt."""

    id: str
    lease: str
    provider: Provider
    health: Health  # of the provider, when this was claimed
    title: str
    content: str
    attempts: int
    charged: int
    since_ms: int
    due_ms: int
    claimed_ms: int


class Ready(NamedTuple):
    """A provider that something waits for."""

    id: str
    organization_id: str
    version: int
    is_taking: bool
    is_deleted: bool
    rate_limit: int | None
    health: Health
    due_ms: int  # when the first of what waits is due


@dataclass(frozen=True, slots=True)
class Claim:
    """Of one page of providers; moments are of those only."""

    asked_at: float  # on this process's monotonic clock: no later than the database's clock was read
    leased: list[Leased]
    unsettled: list[Ready]  # something waits for them although they take nothing: it must be held or cancelled
    awaited: set[str]  # of whom a place must become free before more can be claimed, as `fairness.awaited` says
    next_provider: str  # where the next claim goes on; empty: at the beginning
    wake_ms: int  # in how long something more may be claimed, as far as can be known now
    oldest_ms: int  # how long the oldest due delivery has been waiting


async def claim(tx: Transaction, directory: Directory, *, after: str, free: int, limits: Limits) -> Claim:
    asked_at = time.monotonic()
    found = (await tx.execute(_ready_providers(), {"after": after, "page": PAGE})).all()
    now = int(found[0].now_ms) if found else 0
    ready = [_ready(row, row.due_ms) for row in found]
    due = [each for each in ready if each.due_ms <= now]
    startable = [each for each in due if each.is_taking and _candidate(each, now, limits).starts]
    locked = await _lock(tx, startable)
    under_way = await _under_way(tx) if locked else {}
    ours = await _as_they_are(tx, locked)  # read last: who frees places may have opened a breaker
    candidates = [_candidate(each, now, limits) for each in ours]
    wants = fairness.allot(candidates, under_way, free=free, limits=limits)
    leased = await _lease(tx, directory, ours, wants, now)
    begun = Counter(each.provider.id for each in leased)
    crowded = fairness.crowded_out(candidates, under_way, wants)
    await _keep_pace(tx, ours, begun, now)
    return Claim(
        asked_at,
        leased,
        unsettled=[each for each in ready if not each.is_taking],
        awaited=fairness.awaited(candidates, crowded, wants, begun, free=free)
        | {each.id for each in due}.difference(each.id for each in ours),
        next_provider=found[-1].id if len(found) == PAGE else "",
        wake_ms=min(
            0 if crowded and 0 < len(leased) < sum(wants.values()) else NEVER,  # some had less than was dealt to them
            NEVER if len(locked) == len(startable) else CLASH_MS,
            *(moment - now for moment in _moments(ready, ours, begun, now) if moment > now),
        ),
        oldest_ms=max([now - each.due_ms for each in due] + [0]),
    )


def _moments(ready: list[Ready], ours: list[Ready], begun: Counter[str], now: int) -> list[int]:
    """When the next delivery of each can start, unless all its places are taken: then one is awaited."""
    latest = {each.id: each for each in (*ready, *ours)}
    return [_startable_ms(each, now, begun[each.id]) for each in latest.values() if each.is_taking]


def _ready(row: Row[Any], due_ms: int) -> Ready:
    """Of a row that begins with what is NEEDED."""
    id, organization_id, version, state, rate_limit = row[: len(OWN)]
    is_taking = state == ProviderState.ACTIVE and not row.is_deleted
    health = Health(*row[len(OWN) : len(NEEDED)])
    return Ready(id, organization_id, version, is_taking, bool(row.is_deleted), rate_limit, health, due_ms)


def _startable_ms(ready: Ready, now: int, begun: int) -> int:
    at_ms = max(ready.due_ms, health.starts_again_ms(ready.health))
    if not ready.rate_limit:
        return at_ms
    _, slot_us = fairness.pace(ready.health.next_slot_us, now, rate=ready.rate_limit, want=begun)
    return max(at_ms, fairness.paced_ms(slot_us, ready.rate_limit))


@cache
def _ready_providers() -> Select[Any]:
    """Providers with anything ready, each with the moment its first is due: one step in the index for each."""
    after = bindparam("after", type_=Text)
    first = select(func.min(deliveries.c.provider_id)).where(*READY, deliveries.c.provider_id > after)
    walk = select(first.scalar_subquery().label("provider_id"), literal(1).label("step")).cte("walk", recursive=True)
    following = (
        select(func.min(deliveries.c.provider_id))
        .where(*READY, deliveries.c.provider_id > walk.c.provider_id)
        .correlate(walk)
        .scalar_subquery()
    )
    more = (walk.c.provider_id.is_not(None), walk.c.step < bindparam("page", type_=Integer))
    walk = walk.union_all(select(following, walk.c.step + 1).where(*more))
    due = (
        select(func.min(deliveries.c.due_ms))
        .where(*READY, deliveries.c.provider_id == walk.c.provider_id)
        .correlate(walk)
        .scalar_subquery()
    )
    return (
        select(*(providers.c[name] for name in NEEDED), IS_DELETED, due.label("due_ms"), now_ms().label("now_ms"))
        .join(walk, walk.c.provider_id == providers.c.id)
        .order_by(providers.c.id)
    )


async def _lock(tx: Transaction, startable: list[Ready]) -> list[Ready]:
    """Those whose organization no other worker is claiming for."""
    locked = await try_locks(tx, (each.organization_id for each in startable))
    return [each for each in startable if each.organization_id in locked]


async def _as_they_are(tx: Transaction, locked: list[Ready]) -> list[Ready]:
    """Now that nobody else claims for them; those that take something still."""
    if tx.dialect.name == "sqlite" or not locked:  # its one writer has read them already when nobody else could write
        return locked
    found = await tx.execute(_these_providers(tx.dialect.name), {"ids": pack([{"id": each.id} for each in locked])})
    due = {each.id: each.due_ms for each in locked}
    current = {row.id: _ready(row, due[row.id]) for row in found}
    return [current[each.id] for each in locked if current[each.id].is_taking]


@cache
def _these_providers(dialect: str) -> Select[Any]:
    ids = rows(dialect, "ids", id=Text())
    return select(*(providers.c[name] for name in NEEDED), IS_DELETED).join(ids, ids.c.id == providers.c.id)


async def _under_way(tx: Transaction) -> dict[tuple[str, str], int]:
    """By organization and provider. Exact over all processes: they claim for one organization one after the other."""
    return {(row.organization_id, row.provider_id): row.leased for row in await tx.execute(_all_leased())}


@cache
def _all_leased() -> Select[Any]:
    owner = (deliveries.c.organization_id, deliveries.c.provider_id)
    return select(*owner, func.count().label("leased")).where(deliveries.c.lease.is_not(None)).group_by(*owner)


def _candidate(ready: Ready, now: int, limits: Limits) -> Candidate:
    most = starts = health.may_start(ready.health, now, most=limits.per_provider)
    if ready.rate_limit:
        starts, _ = fairness.pace(ready.health.next_slot_us, now, rate=ready.rate_limit, want=most)
    return Candidate(ready.id, ready.organization_id, most, starts)


async def _lease(
    tx: Transaction, directory: Directory, ours: list[Ready], wants: dict[str, int], now: int
) -> list[Leased]:
    known = await directory.fetch(tx, {each.id: each.version for each in ours if each.id in wants})
    wanted = {id: count for id, count in wants.items() if id in known}
    if not wanted:
        return []
    picked = _trim((await tx.execute(_first_of_each(tx.dialect.name), _first_parameters(wanted))).all(), wanted)
    lease, ids = new_id("lse"), pack([{"id": row.id} for row in picked])
    stamped = {row.id: row for row in await tx.execute(_stamp(tx.dialect.name), {"ids": ids, "lease": lease})}
    health_of_each = {each.id: each.health for each in ours}
    return [
        Leased(
            row.id,
            lease,
            known[row.provider_id],
            health_of_each[row.provider_id],
            row.title,
            row.content,
            attempts=stamped[row.id].attempts,
            charged=stamped[row.id].charged,
            since_ms=stamped[row.id].since_ms,
            due_ms=row.due_ms,
            claimed_ms=now,
        )
        for row in picked
        if row.id in stamped
    ]


def _first_parameters(wants: dict[str, int]) -> dict[str, Any]:
    return {"wants": pack([{"provider_id": each} for each in wants]), "most": max(wants.values())}


def _trim(picked: Any, wants: dict[str, int]) -> list[Row[Any]]:
    """Of each provider no more than wanted, the longest due first."""
    left, kept = dict(wants), []
    for row in sorted(picked, key=lambda row: row.due_ms):
        if left[row.provider_id] > 0:
            left[row.provider_id] -= 1
            kept.append(row)
    return kept


@cache
def _first_of_each(dialect: str) -> Select[Any]:
    """The first due ones of each wanted provider, together with what they shall say."""
    want = rows(dialect, "wants", provider_id=Text())
    ready = deliveries.alias("ready")
    first = (
        select(ready.c.id, ready.c.provider_id, ready.c.due_ms, ready.c.notification_id)
        .where(ready.c.state == IS_PENDING, ready.c.lease.is_(None))
        .where(ready.c.provider_id == want.c.provider_id, ready.c.due_ms <= now_ms())
        .order_by(ready.c.due_ms)
        .limit(bindparam("most", type_=Integer))
        .correlate(want)
    )
    if dialect == "sqlite":  # it knows no LATERAL
        taken: FromClause = deliveries
        joined = want.join(deliveries, deliveries.c.id.in_(first.with_only_columns(ready.c.id)))
    else:
        taken = first.lateral("taken")
        joined = want.join(taken, literal(True))
    return select(
        taken.c.id, taken.c.provider_id, taken.c.due_ms, notifications.c.title, notifications.c.content
    ).select_from(joined.join(notifications, notifications.c.id == taken.c.notification_id))


@cache
def _stamp(dialect: str) -> Any:
    """Only what is still ready: no other worker takes them, but they may have been held or cancelled meanwhile."""
    ids = rows(dialect, "ids", id=Text())
    return (
        update(deliveries)
        .where(deliveries.c.id == ids.c.id, STILL_READY)
        .values(lease=bindparam("lease", type_=Text), lease_until_ms=now_ms() + LEASE_MS)
        .returning(deliveries.c.id, deliveries.c.attempts, deliveries.c.charged, deliveries.c.since_ms)
    )


async def _keep_pace(tx: Transaction, ours: list[Ready], begun: Counter[str], now: int) -> None:
    for ready in ours:
        if ready.rate_limit and begun[ready.id]:
            slot_us = ready.health.next_slot_us
            _, following = fairness.pace(slot_us, now, rate=ready.rate_limit, want=begun[ready.id])
            await tx.execute(update(providers).where(providers.c.id == ready.id).values(next_slot_us=following))


async def renew(tx: Transaction, held: list[tuple[str, str]]) -> set[str]:
    """Prolong these leases, given as (delivery, lease). Returns the deliveries that still have them."""
    renewed = await tx.execute(_prolong(tx.dialect.name), {"held": _pairs(held)})
    return {row.id for row in renewed}


@cache
def _prolong(dialect: str) -> Any:
    held = rows(dialect, "held", id=Text(), lease=Text())
    return (
        update(deliveries)
        .where(deliveries.c.id == held.c.id, deliveries.c.lease == held.c.lease)
        .values(lease_until_ms=now_ms() + LEASE_MS)
        .returning(deliveries.c.id)
    )


async def release(tx: Transaction, held: list[tuple[str, str]]) -> None:
    """Give these back at once, uncharged: somebody else may take them."""
    await tx.execute(_give_back(tx.dialect.name), {"held": _pairs(held)})


def _pairs(held: list[tuple[str, str]]) -> str:
    return pack([{"id": delivery_id, "lease": lease} for delivery_id, lease in held])


@cache
def _give_back(dialect: str) -> Update:
    held = rows(dialect, "held", id=Text(), lease=Text())
    return (
        update(deliveries)
        .where(deliveries.c.id == held.c.id, deliveries.c.lease == held.c.lease)
        .values(lease=null(), lease_until_ms=null())
    )


async def sweep(tx: Transaction) -> int:
    """Take the leases of workers that have stopped renewing them. How many there were."""
    swept = await tx.execute(
        update(deliveries)
        .where(deliveries.c.lease.is_not(None), deliveries.c.lease_until_ms < now_ms())
        .values(lease=null(), lease_until_ms=null())
    )
    return int(swept.rowcount)
