"""Read notifications, deliveries and attempts: filtered, page by page, the newest first, also among millions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, Table, select, union_all

from billhook.delivery.store import State, attempts, deliveries, notifications
from billhook.errors import DeliveryNotFound, NotificationNotFound
from billhook.storage.database import Transaction
from billhook.storage.ids import first_id, is_id


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
    """One short walk of an index for each state, then the newest of those: no state is hidden behind another."""
    states = [wanted.state] if wanted.state is not None else list(State)
    if wanted.notification_id is not None or len(states) == 1:
        query = _page(_deliveries(wanted, wanted.state), deliveries, wanted)
        only: Sequence[Row[Any]] = (await tx.execute(query)).all()
        return only
    walks = [select(_page(_deliveries(wanted, state), deliveries, wanted).subquery()) for state in states]
    merged = union_all(*walks).subquery()
    return (await tx.execute(select(merged).order_by(merged.c.id.desc()).limit(wanted.limit))).all()


def _deliveries(wanted: Filter, state: State | None) -> Select[Any]:
    query = _bounded(select(deliveries), deliveries, "dlv", wanted)
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


async def list_attempts(tx: Transaction, delivery_id: str, *, limit: int = 100) -> Sequence[Row[Any]]:
    """The newest first."""
    query = select(attempts).where(attempts.c.delivery_id == delivery_id).order_by(attempts.c.number.desc())
    return (await tx.execute(query.limit(limit))).all()
