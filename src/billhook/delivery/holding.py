"""What becomes of queued deliveries when their provider takes none: held, released, cancelled, or given up in the end.

Each call moves a bounded number of rows. What is left over is met again: by the next claim, or by `reconcile`.
"""

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, null, select, update

from billhook.delivery.store import IS_HELD, State, deliveries
from billhook.groups.model import ProviderState
from billhook.groups.store import providers
from billhook.storage.clock import now_ms
from billhook.storage.database import Transaction

STEP = 1000  # rows of one statement: a few milliseconds of work
MOST_COUNTED = 10_000  # a number for people, who need no more than that there are very many
QUEUED = (State.PENDING, State.HELD)
HELD_MS = 7 * 24 * 3600 * 1000
HELD_TOO_LONG = "held_too_long"

HOLD: dict[str, Any] = {"state": State.HELD, "since_ms": now_ms()}
CANCEL: dict[str, Any] = {"state": State.CANCELLED, "finished_ms": now_ms()}
RELEASE: dict[str, Any] = {"state": State.PENDING, "since_ms": now_ms(), "due_ms": now_ms()}
GIVE_UP: dict[str, Any] = {"state": State.FAILED, "finished_ms": now_ms(), "error": HELD_TOO_LONG, "status": null()}


async def settle(tx: Transaction, provider_id: str, *, is_deleted: bool) -> int:
    """Put away what is due to a provider that takes nothing. How many there were."""
    return await (cancel if is_deleted else hold)(tx, provider_id)


async def hold(tx: Transaction, provider_id: str) -> int:
    return await _move(tx, _of_provider(provider_id, State.PENDING), HOLD)


async def release(tx: Transaction, provider_id: str) -> int:
    return await _move(tx, _of_provider(provider_id, State.HELD), RELEASE)


async def cancel(tx: Transaction, provider_id: str) -> int:
    """For good, since the provider is deleted. One that is under way just now may still arrive."""
    queued = await _move(tx, _of_provider(provider_id, State.PENDING), CANCEL)
    return queued + await _move(tx, _of_provider(provider_id, State.HELD), CANCEL)


async def count_queued(tx: Transaction, *, group_id: str | None = None, provider_id: str | None = None) -> int:
    """What would be cancelled if they were deleted; of more than MOST_COUNTED, one more than that is told."""
    of, id = (deliveries.c.provider_id, provider_id) if group_id is None else (deliveries.c.group_id, group_id)
    walk = select(deliveries.c.id).where(of == id, deliveries.c.state.in_(QUEUED)).limit(MOST_COUNTED + 1).subquery()
    return int((await tx.execute(select(func.count()).select_from(walk))).scalar_one())


async def reconcile(tx: Transaction) -> int:
    """Held deliveries follow their provider, also those too many to be moved at once. How many were moved."""
    is_deleted = providers.c.deleted_at.is_not(None)
    is_active = and_(providers.c.deleted_at.is_(None), providers.c.state == ProviderState.ACTIVE)
    is_waiting = and_(providers.c.deleted_at.is_(None), providers.c.state != ProviderState.ACTIVE)
    moved = await _move(tx, _held(is_deleted), CANCEL)
    moved += await _move(tx, _held(is_active), RELEASE)
    return moved + await _move(tx, _held(is_waiting, deliveries.c.since_ms < now_ms() - HELD_MS), GIVE_UP)


async def _move(tx: Transaction, chosen: Select[tuple[str]], values: dict[str, Any]) -> int:
    ids = list((await tx.execute(chosen.limit(STEP).with_for_update(of=deliveries, skip_locked=True))).scalars())
    if ids:
        await tx.execute(update(deliveries).where(deliveries.c.id.in_(ids)).values(**values))
    return len(ids)


def _of_provider(provider_id: str, state: State) -> Select[tuple[str]]:
    """In their order. One that is under way is left alone."""
    is_its = and_(deliveries.c.provider_id == provider_id, deliveries.c.state == state, deliveries.c.lease.is_(None))
    return select(deliveries.c.id).where(is_its).order_by(deliveries.c.id)


def _held(which: ColumnElement[bool], *more: ColumnElement[bool]) -> Select[tuple[str]]:
    whose = deliveries.c.provider_id.in_(select(providers.c.id).where(which))
    return select(deliveries.c.id).where(deliveries.c.state == IS_HELD, whose, *more)
