"""What does not move, for who looks after an installation: counted in indexes, and never more than a bounded part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Subquery, Table, case, func, or_, select

from billhook.delivery.store import IS_HELD, IS_PENDING, RUNNING, deliveries, recoveries
from billhook.groups.model import ProviderState
from billhook.groups.store import groups, providers
from billhook.storage.clock import now_ms
from billhook.storage.database import Transaction

MOST = 10_000  # groups and providers that are looked at, the newest
SHOWN = 11  # of those that are found: a person reads ten, and one more tells that there are more
SWEPT_MS = 60_000  # workers sweep every 10 s: a lease that lapsed so long ago was met by none
DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Queue:
    """Milliseconds and counts."""

    overdue_ms: int  # how long the oldest has been waiting that nothing keeps from being sent
    under_way: int  # attempts whose lease lives
    lapsed: int  # leases that ended, and nobody took back


async def look_at_queue(tx: Transaction) -> Queue:
    now = int((await tx.execute(select(now_ms()))).scalar_one())
    due = (await tx.execute(_oldest_due(now))).scalar_one_or_none()
    is_live = deliveries.c.lease_until_ms >= now
    is_lost = deliveries.c.lease_until_ms < now - SWEPT_MS
    counts = select(_count(is_live).label("live"), _count(is_lost).label("lost")).where(deliveries.c.lease.is_not(None))
    leased = (await tx.execute(counts)).one()
    return Queue(max(now - due, 0) if due is not None else 0, int(leased.live), int(leased.lost))


def _count(which: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((which, 1), else_=0)), 0)


def _oldest_due(now: int) -> Select[Any]:
    """Of providers that nothing keeps waiting: neither a breaker, nor a Retry-After, nor a rate limit of their own."""
    free = _newest_providers()
    is_free = (free.c.state == ProviderState.ACTIVE, free.c.open_until_ms <= now, free.c.waits_until_ms <= now)
    is_ready = (deliveries.c.state == IS_PENDING, deliveries.c.lease.is_(None), deliveries.c.provider_id == free.c.id)
    first = select(func.min(deliveries.c.due_ms)).where(*is_ready).correlate(free).scalar_subquery()
    due = select(first.label("due_ms")).select_from(free).where(*is_free, free.c.rate_limit.is_(None)).subquery()
    return select(func.min(due.c.due_ms))


async def held_long(tx: Transaction) -> Sequence[Row[Any]]:
    """Providers that take nothing and have had something held for more than a day, with `held_ms`: how long."""
    closed = _newest_providers()
    is_held = (deliveries.c.state == IS_HELD, deliveries.c.provider_id == closed.c.id)
    first = select(func.min(deliveries.c.since_ms)).where(*is_held).correlate(closed).scalar_subquery()
    found = (
        select(closed.c.id, closed.c.name, first.label("since_ms"))
        .where(closed.c.state != ProviderState.ACTIVE)
        .subquery()
    )
    query = (
        select(found.c.id, found.c.name, (now_ms() - found.c.since_ms).label("held_ms"))
        .where(found.c.since_ms < now_ms() - DAY_MS)
        .order_by(found.c.since_ms)
    )
    return (await tx.execute(query.limit(SHOWN))).all()


async def long_recoveries(tx: Transaction, *, older_than_ms: int) -> Sequence[Row[Any]]:
    is_old = recoveries.c.created_ms < now_ms() - older_than_ms
    query: Select[Any] = select(recoveries.c.id, recoveries.c.recovered).where(RUNNING, is_old)
    found: Sequence[Row[Any]] = (await tx.execute(query.order_by(recoveries.c.id).limit(SHOWN))).all()
    return found


async def ailing_providers(tx: Transaction) -> Sequence[Row[Any]]:
    """Those that were disabled, and then those whose breaker is open."""
    all_of_them = _newest_providers()
    is_disabled = all_of_them.c.state == ProviderState.DISABLED
    query = select(all_of_them).where(or_(is_disabled, all_of_them.c.open_until_ms > now_ms()))
    return (await tx.execute(query.order_by(case((is_disabled, 0), else_=1), all_of_them.c.id).limit(SHOWN))).all()


async def unheard_groups(tx: Transaction) -> Sequence[Row[Any]]:
    """Groups whose notifications reach nobody, each with `has_providers`: whether it has any at all."""
    newest = _newest(groups, "id", "name")
    its = select(providers.c.id).where(providers.c.group_id == newest.c.id, providers.c.deleted_at.is_(None))
    takes = its.where(providers.c.state == ProviderState.ACTIVE).correlate(newest).exists()
    query = select(newest, its.correlate(newest).exists().label("has_providers")).where(~takes)
    return (await tx.execute(query.order_by(newest.c.id).limit(SHOWN))).all()


def _newest_providers() -> Subquery:
    return _newest(providers, "id", "name", "state", "state_reason", "rate_limit", "open_until_ms", "waits_until_ms")


def _newest(table: Table, *columns: str) -> Subquery:
    """The bound is on what is looked at, so that it holds however little of it is found."""
    alive = select(*(table.c[name] for name in columns)).where(table.c.deleted_at.is_(None))
    return alive.order_by(table.c.id.desc()).limit(MOST).subquery()
