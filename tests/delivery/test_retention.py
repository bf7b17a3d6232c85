"""Forgetting: only what is finished and old, with all that belongs to it, in bounded steps."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from sqlalchemy import insert

from billhook.accounts.installation import Installation
from billhook.delivery import retention
from billhook.delivery.counts import attempt_counts
from billhook.delivery.replay import redeliver
from billhook.delivery.retention import (
    forget_counts,
    forget_deliveries,
    forget_keys,
    forget_notifications,
    forget_recoveries,
)
from billhook.delivery.store import FINISHED, State, attempts, deliveries, idempotency_keys, notifications, recoveries
from billhook.storage.database import Database, Transaction
from billhook.storage.ids import first_id
from tests.delivery.support import Halting, make_team, now_of, rows_of, set_values
from tests.groups.setting import NOW
from tests.support import OPERATOR, on_postgres

OLD_MS, BEFORE_MS, NEW_MS = 1_000_000_000_000, 1_500_000_000_000, 1_600_000_000_000

DELIVERY: dict[str, Any] = {
    **{name: name for name in ("organization_id", "group_id", "provider_id", "notification_id")},
    "attempts": 1,
    "charged": 1,
    "created_ms": OLD_MS,
    "since_ms": OLD_MS,
    "due_ms": OLD_MS,
}
NOTIFICATION: dict[str, Any] = {
    **{name: name for name in ("organization_id", "group_id", "sender", "title", "content")},
    "created_ms": OLD_MS,
}
ATTEMPT: dict[str, Any] = {"at_ms": OLD_MS, "detail": "{}", "body": ""}
RECOVERY: dict[str, Any] = {
    **{name: name for name in ("organization_id", "provider_id", "cursor")},
    **{name: OLD_MS for name in ("since_ms", "until_ms", "created_ms")},
    "recovered": 0,
}


def an_id(prefix: str, made_ms: int, number: int = 0) -> str:
    return first_id(prefix, made_ms + number)


async def put_delivery(
    db: Database, state: State, *, made_ms: int = OLD_MS, finished_ms: int | None = OLD_MS, number: int = 0, **more: Any
) -> str:
    """With two attempts."""
    own = an_id("dlv", made_ms, number)
    async with db.transaction() as tx:
        await tx.execute(insert(deliveries).values(**DELIVERY | more, id=own, state=state, finished_ms=finished_ms))
        tried = [ATTEMPT | {"delivery_id": own, "number": count} for count in (1, 2)]
        await tx.execute(insert(attempts), tried)
    return own


async def put_notification(db: Database, *, made_ms: int = OLD_MS, number: int = 0) -> str:
    own = an_id("ntf", made_ms, number)
    async with db.transaction() as tx:
        await tx.execute(insert(notifications).values(**NOTIFICATION, id=own))
    return own


async def forget(db: Database, work: Callable[..., Awaitable[int]], **options: int) -> int:
    async with db.transaction() as tx:
        return await work(tx, **options)


async def ids_of(db: Database) -> list[str]:
    return [row.id for row in await rows_of(db, deliveries)]


@pytest.mark.parametrize("state", FINISHED)
async def test_what_is_finished_and_old_is_forgotten_with_its_attempts(db: Database, state: State) -> None:
    await put_delivery(db, state)
    kept = await put_delivery(db, state, made_ms=NEW_MS, finished_ms=NEW_MS)
    assert await forget(db, forget_deliveries, before_ms=BEFORE_MS) == 1
    assert await ids_of(db) == [kept]
    assert {row.delivery_id for row in await rows_of(db, attempts)} == {kept}


@pytest.mark.parametrize("state", [State.PENDING, State.HELD])
async def test_what_is_not_finished_is_kept_however_old(db: Database, state: State) -> None:
    await put_delivery(db, state, finished_ms=None)
    assert await forget(db, forget_deliveries, before_ms=BEFORE_MS) == 0
    assert len(await ids_of(db)) == 1


async def test_what_was_finished_lately_is_kept_however_old(db: Database) -> None:
    await put_delivery(db, State.DELIVERED, finished_ms=BEFORE_MS)
    assert await forget(db, forget_deliveries, before_ms=BEFORE_MS) == 0
    assert await forget(db, forget_deliveries, before_ms=BEFORE_MS + 1) == 1


async def test_deliveries_are_forgotten_in_bounded_steps_the_oldest_first(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "STEP", 2)
    made = [await put_delivery(db, State.FAILED, number=number) for number in range(5)]
    assert await forget(db, forget_deliveries, before_ms=BEFORE_MS) == 2
    assert await ids_of(db) == made[2:]
    assert [await forget(db, forget_deliveries, before_ms=BEFORE_MS) for _ in range(3)] == [2, 1, 0]
    assert await rows_of(db, attempts) == []


@on_postgres
async def test_what_is_delivered_again_in_that_very_moment_is_not_forgotten(installation: Installation) -> None:
    db, team = installation.db, await make_team(installation)
    own = await put_delivery(db, State.FAILED, organization_id=team.group.organization_id, provider_id=team.provider.id)
    async with db.transaction() as tx:
        halting = Halting(tx)
        forgetting = asyncio.create_task(forget_deliveries(cast(Transaction, halting), before_ms=BEFORE_MS))
        await halting.halted.wait()
        again = asyncio.create_task(deliver_again(db, own))
        await asyncio.wait([again], timeout=0.5)  # it is done, or waits for us, or is told that the delivery is gone
        halting.go_on.set()
        await forgetting
    (refusal,) = await asyncio.gather(again, return_exceptions=True)
    states = [row.state for row in await rows_of(db, deliveries)]
    assert (refusal is None) == (states == [State.PENDING])


async def deliver_again(db: Database, delivery_id: str) -> None:
    async with db.transaction() as tx:
        await redeliver(tx, delivery_id, actor=OPERATOR.actor, now=NOW)


async def test_a_notification_goes_after_its_last_delivery(db: Database) -> None:
    used, unused = await put_notification(db), await put_notification(db, number=1)
    await put_delivery(db, State.DELIVERED, notification_id=used)
    assert await forget(db, forget_notifications, before_ms=BEFORE_MS) == 1
    assert [row.id for row in await rows_of(db, notifications)] == [used]
    await forget(db, forget_deliveries, before_ms=BEFORE_MS)
    assert await forget(db, forget_notifications, before_ms=BEFORE_MS) == 1
    assert await rows_of(db, notifications) == []
    assert unused != used


async def test_a_young_notification_is_kept_also_without_a_delivery(db: Database) -> None:
    await put_notification(db, made_ms=BEFORE_MS)
    assert await forget(db, forget_notifications, before_ms=BEFORE_MS) == 0
    assert await forget(db, forget_notifications, before_ms=BEFORE_MS + 1) == 1


async def test_notifications_are_forgotten_in_bounded_steps(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STEP", 2)
    for number in range(5):
        await put_notification(db, number=number)
    assert [await forget(db, forget_notifications, before_ms=BEFORE_MS) for _ in range(4)] == [2, 2, 1, 0]


async def test_keys_are_forgotten_when_they_have_expired(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STEP", 2)
    now = await now_of(db)
    expiries = {"a": now - 1, "b": 0, "c": now - 5000, "d": now + 3_600_000}
    shared = {"sender": "client:x", "fingerprint": "f", "notification_id": "n"}
    async with db.transaction() as tx:
        keys = [shared | {"key": key, "expires_ms": expires_ms} for key, expires_ms in expiries.items()]
        await tx.execute(insert(idempotency_keys), keys)
    assert [await forget(db, forget_keys) for _ in range(3)] == [2, 1, 0]
    assert [row.key for row in await rows_of(db, idempotency_keys)] == ["d"]
    await set_values(db, idempotency_keys, expires_ms=0)
    assert await forget(db, forget_keys) == 1


async def test_old_recoveries_are_forgotten_unless_they_still_run(db: Database) -> None:
    made = {an_id("rcv", OLD_MS): "finished", an_id("rcv", OLD_MS, 1): "running", an_id("rcv", NEW_MS): "finished"}
    async with db.transaction() as tx:
        await tx.execute(insert(recoveries), [RECOVERY | {"id": own, "state": state} for own, state in made.items()])
    assert await forget(db, forget_recoveries, before_ms=BEFORE_MS) == 1
    assert [row.id for row in await rows_of(db, recoveries)] == list(made)[1:]


async def test_old_counts_are_forgotten_in_bounded_steps_the_oldest_first(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "STEP", 2)
    hours = [OLD_MS, OLD_MS + 1, OLD_MS + 2, BEFORE_MS - 1, BEFORE_MS, NEW_MS]
    counted = {"provider_id": "prv_a", "is_ok": True, "bucket": 3, "count": 1}
    async with db.transaction() as tx:
        await tx.execute(insert(attempt_counts), [counted | {"hour_ms": hour_ms} for hour_ms in reversed(hours)])
    assert await forget(db, forget_counts, before_ms=BEFORE_MS) == 2
    assert [row.hour_ms for row in await rows_of(db, attempt_counts)] == hours[2:]
    assert [await forget(db, forget_counts, before_ms=BEFORE_MS) for _ in range(2)] == [2, 0]
    assert [row.hour_ms for row in await rows_of(db, attempt_counts)] == hours[4:]
