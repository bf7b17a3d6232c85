"""Forget what is old, in bounded steps that never keep a delivery waiting."""

from sqlalchemy import delete, exists, select, tuple_

from billhook.delivery.counts import attempt_counts
from billhook.delivery.store import FINISHED, attempts, deliveries, idempotency_keys, notifications, recoveries
from billhook.storage.clock import now_ms
from billhook.storage.database import Transaction
from billhook.storage.ids import first_id

STEP = 500  # rows a step; on PostgreSQL about ten milliseconds


async def forget_deliveries(tx: Transaction, *, before_ms: int) -> int:
    """Finished deliveries of that age with their attempts. Ids sort by time, so the oldest are found at once."""
    old = (
        select(deliveries.c.id)
        .where(deliveries.c.id < first_id("dlv", before_ms), deliveries.c.state.in_(FINISHED))
        .where(deliveries.c.finished_ms < before_ms)
        .order_by(deliveries.c.id)
        .limit(STEP)
        .with_for_update(skip_locked=True)  # one may be delivered again in this very moment
    )
    ids = list((await tx.execute(old)).scalars())
    if ids:
        await tx.execute(delete(attempts).where(attempts.c.delivery_id.in_(ids)))
        await tx.execute(delete(deliveries).where(deliveries.c.id.in_(ids)))
    return len(ids)


async def forget_notifications(tx: Transaction, *, before_ms: int) -> int:
    """Notifications of that age of which no delivery is left."""
    in_use = exists().where(deliveries.c.notification_id == notifications.c.id)
    old = (
        select(notifications.c.id)
        .where(notifications.c.id < first_id("ntf", before_ms), ~in_use)
        .order_by(notifications.c.id)
        .limit(STEP)
    )
    ids = list((await tx.execute(old)).scalars())
    if ids:
        await tx.execute(delete(notifications).where(notifications.c.id.in_(ids)))
    return len(ids)


async def forget_keys(tx: Transaction) -> int:
    old = select(idempotency_keys.c.sender, idempotency_keys.c.key).where(idempotency_keys.c.expires_ms <= now_ms())
    found = (await tx.execute(old.limit(STEP))).all()
    for row in found:
        same = (idempotency_keys.c.sender == row.sender, idempotency_keys.c.key == row.key)
        await tx.execute(delete(idempotency_keys).where(*same, idempotency_keys.c.expires_ms <= now_ms()))
    return len(found)


async def forget_recoveries(tx: Transaction, *, before_ms: int) -> int:
    old = select(recoveries.c.id).where(recoveries.c.id < first_id("rcv", before_ms), recoveries.c.state != "running")
    ids = list((await tx.execute(old.limit(STEP))).scalars())
    if ids:
        await tx.execute(delete(recoveries).where(recoveries.c.id.in_(ids)))
    return len(ids)


async def forget_counts(tx: Transaction, *, before_ms: int) -> int:
    key = attempt_counts.primary_key.columns
    old = select(*key).where(attempt_counts.c.hour_ms < before_ms).order_by(attempt_counts.c.hour_ms).limit(STEP)
    gone = delete(attempt_counts).where(tuple_(*key).in_(old.with_for_update(skip_locked=True)))
    return int((await tx.execute(gone)).rowcount)
