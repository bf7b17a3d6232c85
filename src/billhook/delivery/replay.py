"""Deliver again: one, or everything that failed since a moment. The same webhook-id, new attempts."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, insert, null, select, update

from billhook.accounts.audit import Actor, note
from billhook.delivery.store import State, deliveries, recoveries
from billhook.errors import DeliveryConflict, DeliveryNotFound, RecoveryNotFound
from billhook.groups.model import Provider
from billhook.groups.store import providers
from billhook.storage.clock import now_ms
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id, new_id

STEP = 500  # deliveries looked at in one transaction

AGAIN = {
    "state": State.PENDING,
    "charged": 0,
    "since_ms": now_ms(),
    "due_ms": now_ms(),
    "finished_ms": null(),
    "error": null(),
    "status": null(),
}


@dataclass(frozen=True, slots=True)
class Recovery:
    """A job that outlives the process which began it."""

    id: str
    provider_id: str
    state: str  # running or finished
    since_ms: int
    until_ms: int
    cursor: str
    recovered: int
    created_ms: int
    finished_ms: int | None


async def redeliver(tx: Transaction, delivery_id: str, *, actor: Actor, now: datetime) -> None:
    """Attempt it again at once, with a fresh schedule."""
    found = await _locked(tx, delivery_id, actor.organization_id)
    if found.lease is not None:
        raise DeliveryConflict("the delivery is being attempted at this moment")
    if found.deleted_at is not None:
        raise DeliveryConflict("the provider of this delivery is deleted")
    await tx.execute(update(deliveries).where(deliveries.c.id == delivery_id).values(**AGAIN))
    owner = replace(actor, organization_id=found.organization_id)
    await note(tx, owner, "delivery.redelivered", subject=delivery_id, now=now, provider=found.provider_id)


async def _locked(tx: Transaction, delivery_id: str, organization_id: str | None) -> Row[Any]:
    if not is_id(delivery_id):
        raise DeliveryNotFound()
    query = (
        select(deliveries, providers.c.deleted_at)
        .join(providers, providers.c.id == deliveries.c.provider_id)
        .where(deliveries.c.id == delivery_id)
        .with_for_update(of=deliveries)
    )
    if organization_id is not None:
        query = query.where(deliveries.c.organization_id == organization_id)
    found = (await tx.execute(query)).one_or_none()
    if found is None:
        raise DeliveryNotFound()
    return found


async def begin_recovery(
    tx: Transaction, provider: Provider, *, since_ms: int, actor: Actor, now: datetime
) -> Recovery:
    """Begin to deliver again what failed since then. The first step is taken at once, the rest by a worker."""
    current = int((await tx.execute(select(now_ms()))).scalar_one())
    begun = Recovery(
        new_id("rcv"),
        provider.id,
        "running",
        since_ms=max(0, min(since_ms, current)),
        until_ms=current,
        cursor="",
        recovered=0,
        created_ms=current,
        finished_ms=None,
    )
    columns = {name: getattr(begun, name) for name in Recovery.__dataclass_fields__}
    await tx.execute(insert(recoveries).values(organization_id=provider.organization_id, **columns))
    owner = replace(actor, organization_id=provider.organization_id)
    await note(tx, owner, "provider.recovery-begun", subject=provider.id, now=now, recovery=begun.id)
    return await step(tx, begun)


async def find_recovery(tx: Transaction, provider_id: str, recovery_id: str) -> Recovery:
    same = (recoveries.c.id == recovery_id, recoveries.c.provider_id == provider_id)
    found = (await tx.execute(select(recoveries).where(*same))).one_or_none() if is_id(recovery_id) else None
    if found is None:
        raise RecoveryNotFound()
    return _recovery(found)


async def next_recovery(tx: Transaction) -> Recovery | None:
    """One that is running and that nobody else is working on."""
    running = select(recoveries).where(recoveries.c.state == "running").order_by(recoveries.c.id).limit(1)
    found = (await tx.execute(running.with_for_update(skip_locked=True))).one_or_none()
    return None if found is None else _recovery(found)


async def end_recoveries(tx: Transaction, provider_id: str) -> None:
    """Of a provider that is deleted: what failed stays failed."""
    running = (recoveries.c.provider_id == provider_id, recoveries.c.state == "running")
    await tx.execute(update(recoveries).where(*running).values(state="finished", finished_ms=now_ms()))


async def step(tx: Transaction, recovery: Recovery) -> Recovery:
    """Take up to STEP further deliveries, and keep how far it has come in the same transaction."""
    looked_at = (await tx.execute(_failed_after(recovery))).all()
    ids = [row.id for row in looked_at if recovery.since_ms <= row.finished_ms < recovery.until_ms]
    if ids:
        await tx.execute(update(deliveries).where(deliveries.c.id.in_(ids)).values(**AGAIN))
    is_over = len(looked_at) < STEP
    moved = replace(
        recovery,
        cursor=looked_at[-1].id if looked_at else recovery.cursor,
        recovered=recovery.recovered + len(ids),
        state="finished" if is_over else "running",
    )
    kept = {"cursor": moved.cursor, "recovered": moved.recovered, "state": moved.state}
    finished = now_ms() if is_over else null()
    moving = update(recoveries).where(recoveries.c.id == recovery.id).values(**kept, finished_ms=finished)
    return replace(moved, finished_ms=(await tx.execute(moving.returning(recoveries.c.finished_ms))).scalar_one())


def _failed_after(recovery: Recovery) -> Select[tuple[str, int]]:
    return (
        select(deliveries.c.id, deliveries.c.finished_ms)
        .where(deliveries.c.provider_id == recovery.provider_id, deliveries.c.state == State.FAILED)
        .where(deliveries.c.id > recovery.cursor)
        .order_by(deliveries.c.id)
        .limit(STEP)
        .with_for_update()
    )


def _recovery(row: Row[Any]) -> Recovery:
    return Recovery(**{name: getattr(row, name) for name in Recovery.__dataclass_fields__})
