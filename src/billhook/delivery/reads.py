"""Read notifications, deliveries and attempts: filtered, page by page, the newest first, also among millions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, Table, case, func, select, union_all

from billhook.delivery.counts import Span, attempt_counts
from billhook.delivery.store import State, attempts, deliveries, notifications, recoveries
from billhook.errors import DeliveryNotFound, GroupNotFound, NotificationNotFound, ProviderNotFound, RecoveryNotFound
from billhook.groups.store import groups, providers
from billhook.storage.database import Transaction
from billhook.storage.ids import first_id, is_id

# What the rows of people's lists say: no lease's end, which moves while nothing changes.
SHOWN = tuple(column for column in deliveries.columns if column.name != "lease_until_ms")
OWNERS = (
    providers.c.name.label("provider_name"),
    providers.c.state.label("provider_state"),
    providers.c.deleted_at.label("provider_deleted_at"),
    providers.c.open_until_ms,
    providers.c.waits_until_ms,
    groups.c.name.label("group_name"),
)


@dataclass(frozen=True, slots=True)
class Filter:
    """What of an organization's is wanted; None: whatever there is. `organization_id` None is the operator."""

    organization_id: str | None
    group_id: str | None = None
    provider_id: str | None = None
    notification_id: str | None = None
    state: State | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    after: str | None = None  # the id of the last one already seen
    limit: int = 50


async def list_notifications(tx: Transaction, wanted: Filter) -> Sequence[Row[Any]]:
    query = _bounded(select(notifications), notifications, "ntf", wanted)
    if wanted.group_id is not None:
        query = query.where(notifications.c.group_id == wanted.group_id)
    found: Sequence[Row[Any]] = (await tx.execute(_page(query, notifications, wanted))).all()
    return found


async def list_deliveries(tx: Transaction, wanted: Filter) -> Sequence[Row[Any]]:
    query = select(deliveries).where(deliveries.c.id.in_(_ids(wanted)))
    found: Sequence[Row[Any]] = (await tx.execute(query.order_by(deliveries.c.id.desc()))).all()
    return found


async def list_with_names(tx: Transaction, wanted: Filter) -> Sequence[Row[Any]]:
    """The same, each with the title of its notification, and the names and states of its provider and its group."""
    named = (
        deliveries.outerjoin(notifications, notifications.c.id == deliveries.c.notification_id)
        .join(providers, providers.c.id == deliveries.c.provider_id)
        .join(groups, groups.c.id == deliveries.c.group_id)
    )
    query: Select[Any] = select(*SHOWN, notifications.c.title, *OWNERS).select_from(named)
    query = query.where(deliveries.c.id.in_(_ids(wanted))).order_by(deliveries.c.id.desc())
    found: Sequence[Row[Any]] = (await tx.execute(query)).all()
    return found


def _ids(wanted: Filter) -> Select[Any]:
    """One short walk of an index for each state, then the newest of those: no state is hidden behind another."""
    if wanted.notification_id is not None or wanted.state is not None:
        return _page(_of_state(wanted, wanted.state), deliveries, wanted)
    walks = [select(_page(_of_state(wanted, state), deliveries, wanted).subquery()) for state in State]
    merged = union_all(*walks).subquery()
    return select(merged).order_by(merged.c.id.desc()).limit(wanted.limit)


def _of_state(wanted: Filter, state: State | None) -> Select[Any]:
    query = _bounded(select(deliveries.c.id), deliveries, "dlv", wanted)
    for column in ("group_id", "provider_id", "notification_id"):
        if (value := getattr(wanted, column)) is not None:
            query = query.where(deliveries.c[column] == value)
    return query if state is None else query.where(deliveries.c.state == state)


def _bounded(query: Select[Any], table: Table, prefix: str, wanted: Filter) -> Select[Any]:
    if wanted.organization_id is not None:
        query = query.where(table.c.organization_id == wanted.organization_id)
    if wanted.since_ms is not None:
        query = query.where(table.c.id >= first_id(prefix, wanted.since_ms))
    if wanted.until_ms is not None:
        query = query.where(table.c.id < first_id(prefix, wanted.until_ms))
    return query if wanted.after is None else query.where(table.c.id < wanted.after)


def _page(query: Select[Any], table: Table, wanted: Filter) -> Select[Any]:
    return query.order_by(table.c.id.desc()).limit(wanted.limit)


async def get_notification(tx: Transaction, notification_id: str, organization_id: str | None) -> Row[Any]:
    found = await _find(tx, notifications, notification_id, organization_id)
    if found is None:
        raise NotificationNotFound()
    return found


async def get_delivery(tx: Transaction, delivery_id: str, organization_id: str | None) -> Row[Any]:
    found = await _find(tx, deliveries, delivery_id, organization_id)
    if found is None:
        raise DeliveryNotFound()
    return found


async def _find(tx: Transaction, table: Table, id: str, organization_id: str | None) -> Row[Any] | None:
    if not is_id(id):
        return None
    query = select(table).where(table.c.id == id)
    if organization_id is not None:
        query = query.where(table.c.organization_id == organization_id)
    return (await tx.execute(query)).one_or_none()


async def list_attempts(
    tx: Transaction, delivery_id: str, *, before: int | None = None, limit: int = 100
) -> Sequence[Row[Any]]:
    """The newest first; `before` is the number of the last one already seen."""
    query = select(attempts).where(attempts.c.delivery_id == delivery_id).order_by(attempts.c.number.desc())
    if before is not None:
        query = query.where(attempts.c.number < before)
    return (await tx.execute(query.limit(limit))).all()


async def list_hours(tx: Transaction, provider_ids: Sequence[str], *, since_ms: int) -> dict[str, list[Span]]:
    """Of each provider the hours that had attempts, the oldest first, added up without how long they took."""
    counted = attempt_counts.c
    ok = func.sum(case((counted.is_ok, counted["count"]), else_=0)).label("ok")
    tried = func.sum(counted["count"]).label("tried")
    query = (
        select(counted.provider_id, counted.hour_ms, ok, tried)
        .where(counted.provider_id.in_(provider_ids), counted.hour_ms >= since_ms)
        .group_by(counted.provider_id, counted.hour_ms)
        .order_by(counted.provider_id, counted.hour_ms)
    )
    spans: dict[str, list[Span]] = {provider_id: [] for provider_id in provider_ids}
    for row in await tx.execute(query):
        spans[row.provider_id].append(Span(row.hour_ms, int(row.ok), int(row.tried - row.ok)))
    return spans


async def list_destinations(tx: Transaction, organization_id: str, *, limit: int) -> Sequence[Row[Any]]:
    """Groups by name, each with its providers by name, or with None: what a list can be narrowed down to."""
    is_its = (providers.c.group_id == groups.c.id) & providers.c.deleted_at.is_(None)
    query: Select[Any] = (
        select(
            groups.c.id.label("group_id"),
            groups.c.name.label("group_name"),
            providers.c.id.label("provider_id"),
            providers.c.name.label("provider_name"),
        )
        .select_from(groups.outerjoin(providers, is_its))
        .where(groups.c.organization_id == organization_id, groups.c.deleted_at.is_(None))
        .order_by(groups.c.name, groups.c.id, providers.c.name, providers.c.id)
    )
    found: Sequence[Row[Any]] = (await tx.execute(query.limit(limit))).all()
    return found


async def get_destination(tx: Transaction, provider_id: str, organization_id: str) -> Row[Any]:
    """A provider's whole row with the name of its group, also when they are deleted."""
    query = (
        select(providers, groups.c.name.label("group_name"), groups.c.deleted_at.label("group_deleted_at"))
        .join(groups, groups.c.id == providers.c.group_id)
        .where(providers.c.id == provider_id, providers.c.organization_id == organization_id)
    )
    found = (await tx.execute(query)).one_or_none() if is_id(provider_id) else None
    if found is None:
        raise ProviderNotFound()
    return found


async def get_group(tx: Transaction, group_id: str, organization_id: str) -> Row[Any]:
    """Also when it is deleted."""
    found = await _find(tx, groups, group_id, organization_id)
    if found is None:
        raise GroupNotFound()
    return found


async def get_recovery(tx: Transaction, recovery_id: str, organization_id: str) -> Row[Any]:
    found = await _find(tx, recoveries, recovery_id, organization_id)
    if found is None:
        raise RecoveryNotFound()
    return found


async def list_recoveries(tx: Transaction, provider_id: str, *, limit: int) -> Sequence[Row[Any]]:
    """The newest first."""
    query = select(recoveries).where(recoveries.c.provider_id == provider_id).order_by(recoveries.c.id.desc())
    return (await tx.execute(query.limit(limit))).all()
