"""What a worker does beside delivering."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import func, select, update
from structlog.testing import capture_logs

from billhook.accounts.installation import Installation
from billhook.delivery import counts, replay
from billhook.delivery.chores import DAY_MS, Chores
from billhook.delivery.context import Hub, open_hub
from billhook.delivery.health import WINDOW_MS, Memory
from billhook.delivery.outcomes import Memories
from billhook.delivery.queue import LEASE_MS
from billhook.delivery.store import deliveries, notifications, recoveries
from billhook.delivery.worker import running_worker
from billhook.errors import Unavailable
from billhook.groups.store import providers
from billhook.storage.clock import now_ms
from billhook.storage.ids import first_id
from billhook.web.metrics import Metrics
from tests.delivery.floor import change, delivery, gauged, provider_at, send, settled, when
from tests.groups.setting import NOW
from tests.outbound.receivers import RawReceiver
from tests.support import OPERATOR

LONG_AGO = 1  # milliseconds since 1970


@pytest.fixture
async def hub(installation: Installation) -> AsyncIterator[Hub]:
    async with open_hub(installation, Metrics()) as opened:
        yield opened


async def nothing() -> None:
    """In place of the worker's renewing."""


def chores_of(hub: Hub, memories: Memories | None = None) -> Chores:
    return Chores(hub, {} if memories is None else memories, nothing)


async def is_rung(hub: Hub) -> bool:
    waiting = asyncio.create_task(hub.bell.wait(3600))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rung = waiting.done()
    waiting.cancel()
    return rung


async def test_a_worker_that_starts_delivers_at_once_what_a_dead_one_had_taken(installation: Installation) -> None:
    async with RawReceiver() as receiver, open_hub(installation, Metrics()) as hub:
        sent = await send(hub, await provider_at(installation, receiver.url()))
        await change(hub.db, sent, lease="lse_of_the_dead", lease_until_ms=LONG_AGO)
        async with running_worker(hub):
            await settled(hub.db, sent)


async def test_sweeping_takes_lapsed_leases_only(installation: Installation, hub: Hub) -> None:
    provider = await provider_at(installation, "https://receiver.example/")
    lapsed, live = await send(hub, provider), await send(hub, provider)
    await change(hub.db, lapsed, lease="lse_one", lease_until_ms=LONG_AGO)
    await change(hub.db, live, lease="lse_two", lease_until_ms=2**50)
    await hub.bell.wait(0)
    await chores_of(hub).sweep()
    assert ((await delivery(hub.db, lapsed)).lease, (await delivery(hub.db, live)).lease) == (None, "lse_two")
    assert await is_rung(hub)
    await hub.bell.wait(0)
    await chores_of(hub).sweep()
    assert not await is_rung(hub)


async def test_mending_counts_open_breakers_of_providers_that_are_there(installation: Installation, hub: Hub) -> None:
    for number, values in enumerate(({}, {"open_until_ms": 1}, {"open_until_ms": 2**50}, {"open_until_ms": 2**50})):
        provider = await provider_at(installation, f"https://receiver.example/{number}")
        async with hub.db.transaction() as tx:
            more: dict[str, Any] = {"deleted_at": NOW} if number == 3 else {}
            values_now: dict[str, Any] = {"failures": 0} | values | more
            await tx.execute(update(providers).where(providers.c.id == provider.id).values(**values_now))
    await chores_of(hub).mend()
    assert gauged(hub.metrics.open_breakers) == 1


async def test_a_recovery_left_by_a_dead_worker_is_brought_to_its_end(
    installation: Installation, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "STEP", 2)
    provider = await provider_at(installation, "https://receiver.example/")
    sent = [await send(hub, provider) for _ in range(5)]
    for each in sent:
        await change(hub.db, each, state="failed", finished_ms=LONG_AGO)
    async with hub.db.transaction() as tx:
        begun = await replay.begin_recovery(tx, provider, since_ms=0, actor=OPERATOR.actor, now=NOW)
    assert (begun.state, begun.recovered) == ("running", 2)
    await chores_of(hub).mend()
    async with hub.db.reading() as tx:
        seen = await replay.find_recovery(tx, provider.id, begun.id)
    assert (seen.state, seen.recovered) == ("finished", 5)
    assert {(await delivery(hub.db, each)).state for each in sent} == {"pending"}
    assert await is_rung(hub)


async def test_what_is_older_than_the_retention_is_forgotten(installation: Installation, hub: Hub) -> None:
    provider = await provider_at(installation, "https://receiver.example/")
    old, young, waiting = [await send(hub, provider) for _ in range(3)]
    async with hub.db.transaction() as tx:
        now = int((await tx.execute(select(now_ms()))).scalar_one())
        for each, days, state in ((old, 31, "delivered"), (young, 29, "delivered"), (waiting, 31, "pending")):
            at = now - days * DAY_MS
            aged = {"id": first_id("dlv", at), "created_ms": at, "state": state}
            finished = at if state == "delivered" else None
            row = (await tx.execute(select(deliveries).where(deliveries.c.id == each))).one()
            said = notifications.c.id == row.notification_id
            ids = {"notification_id": first_id("ntf", at - 1 if each == waiting else at)}
            aged["id"] = first_id("dlv", at - 1 if each == waiting else at)
            await tx.execute(update(notifications).where(said).values(id=ids["notification_id"], created_ms=at))
            changed = update(deliveries).where(deliveries.c.id == each)
            await tx.execute(changed.values(**aged, **ids, finished_ms=finished))
        expired = recoveries.insert().values(
            id=first_id("rcv", 1),
            organization_id=provider.organization_id,
            provider_id=provider.id,
            since_ms=0,
            until_ms=1,
            state="finished",
            cursor="",
            recovered=0,
            created_ms=1,
            finished_ms=1,
        )
        await tx.execute(expired)
        for days in (31, 29):
            await counts.add(tx, [counts.key_of(provider.id, at_ms=now - days * DAY_MS, is_ok=True, milliseconds=1)])
    await chores_of(hub).forget()
    async with hub.db.reading() as tx:
        left = [
            (await tx.execute(select(func.count()).select_from(each))).scalar_one()
            for each in (deliveries, notifications, recoveries, counts.attempt_counts)
        ]
        states = set((await tx.execute(select(deliveries.c.state))).scalars())
    assert (left, states) == ([2, 2, 0, 1], {"delivered", "pending"})


async def test_a_provider_to_which_nothing_happened_for_a_minute_is_forgotten(hub: Hub) -> None:
    memories = {"old": Memory(), "young": Memory(), "empty": Memory(), "noted": Memory(noted_ms=WINDOW_MS)}
    memories["old"].untold.add(0, ok=True)
    memories["young"].untold.add(WINDOW_MS, ok=True)
    chores_of(hub, memories).forget_providers(WINDOW_MS + 1000)
    assert memories.keys() == {"young", "noted"}


@pytest.mark.parametrize("hours", [-1, 1])
async def test_providers_are_remembered_by_the_clock_of_the_database_whatever_the_clock_here_says(
    hub: Hub, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub.db.reading() as tx:
        now = int((await tx.execute(select(now_ms()))).scalar_one())
    memories = {"old": Memory(), "young": Memory()}
    memories["old"].untold.add(now - 2 * WINDOW_MS, ok=True)
    memories["young"].untold.add(now, ok=True)
    wrong = time.time_ns() + hours * 3600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: wrong)
    await chores_of(hub, memories).mend()
    assert memories.keys() == {"young"}


async def test_a_chore_that_fails_is_told_and_done_again(hub: Hub) -> None:
    done: list[str] = []

    async def fail() -> None:
        done.append("tried")
        if len(done) == 1:
            raise Unavailable(detail="the weather")
        if len(done) == 2:
            raise ZeroDivisionError

    chores = chores_of(hub)
    chores.works = [("sweep the floor", 0.001, fail)]
    with capture_logs() as lines:
        running = asyncio.create_task(chores.run())
        await when(lambda: len(done) >= 3)
        running.cancel()
        await asyncio.wait([running])
    told = [(line["event"], line["log_level"]) for line in lines]
    assert told == [
        ("could not sweep the floor; trying again", "warning"),
        ("could not sweep the floor; trying again", "error"),
    ]


def test_leases_are_renewed_well_before_they_end() -> None:
    seconds = {what: every for what, every, _ in Chores(None, {}, nothing).works}  # type: ignore[arg-type]
    assert seconds["renew leases"] * 3 < LEASE_MS / 1000
