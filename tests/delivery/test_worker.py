"""The worker with real receivers: what it tries again, what it leaves alone, and what it does when others fail."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError
from structlog.testing import capture_logs

from billhook.accounts.installation import Installation
from billhook.delivery import worker as worker_module
from billhook.delivery.attempt import attempt
from billhook.delivery.context import Hub, open_hub
from billhook.delivery.health import Window
from billhook.delivery.queue import LEASE_MS
from billhook.delivery.worker import Worker, running_worker
from billhook.groups import manage
from billhook.groups.store import providers
from billhook.outbound.client import Budget
from billhook.storage import database
from billhook.web.metrics import Metrics
from tests.delivery.floor import (
    another_process,
    attempts_of,
    change,
    delivery,
    notify,
    provider_at,
    provider_row,
    send,
    settled,
    when,
    working,
)
from tests.delivery.marks import tuned
from tests.delivery.receivers import Gate, in_turn, received, response
from tests.outbound.receivers import RawReceiver, hang
from tests.support import OPERATOR, on_postgres, on_sqlite, until


@pytest.fixture
async def worker(installation: Installation) -> AsyncIterator[Worker]:
    async with working(installation) as running:
        yield running


@pytest.fixture
def hub(worker: Worker) -> Hub:
    return worker.hub


async def test_a_delivery_is_tried_again_until_it_is_taken(installation: Installation, hub: Hub) -> None:
    async with RawReceiver(in_turn(response(500), response(503), response(204))) as receiver:
        sent = await send(hub, await provider_at(installation, receiver.url()))
        await settled(hub.db, sent)
        assert [each.all("webhook-id") for each in received(receiver)] == [[sent]] * 3
    assert await attempts_of(hub.db, sent) == [(1, 500, None), (2, 503, None), (3, 204, None)]
    row = await delivery(hub.db, sent)
    assert (row.attempts, row.lease, row.lease_until_ms) == (3, None, None)


async def test_a_delivery_is_given_up_when_its_schedule_is_over(installation: Installation, hub: Hub) -> None:
    async with RawReceiver(response(500)) as receiver:
        sent = await send(hub, await provider_at(installation, receiver.url()))
        await settled(hub.db, sent, state="failed")
        assert len(receiver.requests) == 4
    row = await delivery(hub.db, sent)
    assert (row.attempts, row.charged, row.status, row.error) == (4, 4, 500, None)
    assert row.finished_ms >= row.created_ms


@tuned(retry_schedule="1h")
async def test_edits_of_the_provider_apply_to_what_is_queued_but_not_to_what_was_said(
    installation: Installation, hub: Hub
) -> None:
    async with RawReceiver(response(500)) as wrong, RawReceiver() as right:
        provider = await provider_at(installation, wrong.url())
        sent = await send(hub, provider, "First title", "first content")
        await when(lambda: len(wrong.requests) == 1)
        edits = {"server_url": right.url("/new"), "request_headers": [{"key": "X-New", "value": "yes"}]}
        async with hub.db.transaction() as tx:
            await manage.change_provider(
                tx, hub.vault, None, provider.id, edits, author=OPERATOR, now=datetime.now(UTC)
            )
        await until_recorded(hub, sent)
        await change(hub.db, sent, due_ms=0)
        hub.bell.ring()
        await settled(hub.db, sent)
        (request,) = received(right)
    assert (request.target, request.all("x-new"), request.all("webhook-id")) == ("/new", ["yes"], [sent])
    assert request.body == b'{"title":"First title","content":"first content"}'


async def until_recorded(hub: Hub, delivery_id: str, attempts: int = 1) -> None:
    async def is_recorded() -> bool:
        return bool((await delivery(hub.db, delivery_id)).attempts == attempts)

    await until(is_recorded, seconds=20)


async def test_a_receiver_that_hangs_keeps_no_other_waiting(installation: Installation, worker: Worker) -> None:
    hub = worker.hub
    async with RawReceiver(hang) as hanging, RawReceiver() as well:
        stuck, other = [await provider_at(installation, each.url()) for each in (hanging, well)]
        waiting = await asyncio.gather(*(send(hub, stuck) for _ in range(30)))
        await when(lambda: len(worker.flights) == 10)
        for _ in range(3):
            await settled(hub.db, await send(hub, other))
        states = {(await delivery(hub.db, each)).state for each in waiting}
        assert states == {"pending"}
        assert len(hanging.requests) == 10
        for flight in list(worker.flights.values()):
            flight.task.cancel()
        async with hub.db.transaction() as tx:
            await manage.pause(tx, hub.vault, None, stuck.id, author=OPERATOR, now=datetime.now(UTC))


async def test_one_provider_has_no_more_under_way_than_it_may(installation: Installation, hub: Hub) -> None:
    gate = Gate()
    async with RawReceiver(gate) as receiver:
        provider = await provider_at(installation, receiver.url())
        sent = await asyncio.gather(*(send(hub, provider) for _ in range(30)))
        await when(lambda: gate.holding == 10)
        gate.open()
        await settled(hub.db, *sent)
    assert (gate.most, len(receiver.requests)) == (10, 30)


@tuned(in_flight_per_provider=4, in_flight_per_organization=6, in_flight_per_process=8)
async def test_an_organization_has_no_more_under_way_than_it_may(installation: Installation, worker: Worker) -> None:
    gates = [Gate() for _ in range(3)]
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(RawReceiver(gate)) for gate in gates]
        providers = [await provider_at(installation, each.url()) for each in receivers]
        sent = [await send(worker.hub, provider) for provider in providers for _ in range(5)]
        await when(lambda: sum(gate.holding for gate in gates) == 6)
        for gate in gates:
            gate.open()
        await settled(worker.hub.db, *sent)
    assert max(gate.most for gate in gates) <= 4


@tuned(in_flight_per_process=3)
async def test_a_process_has_no_more_under_way_than_it_may(installation: Installation, worker: Worker) -> None:
    gate = Gate()
    async with RawReceiver(gate) as receiver:
        provider = await provider_at(installation, receiver.url())
        sent = [await send(worker.hub, provider) for _ in range(9)]
        await when(lambda: gate.holding == 3)
        gate.open()
        await settled(worker.hub.db, *sent)
    assert gate.most == 3


@tuned(in_flight_per_provider=1, retry_schedule="0.01s,0.01s,0.01s,0.01s,0.01s,0.01s,0.01s,0.01s")
async def test_after_five_failures_in_a_row_deliveries_wait_uncharged(installation: Installation, hub: Hub) -> None:
    async with RawReceiver(in_turn(*[response(500)] * 5, response(200))) as receiver:
        provider = await provider_at(installation, receiver.url())
        sent = [await send(hub, provider) for _ in range(4)]

        async def is_open() -> bool:
            return bool((await provider_row(hub.db, provider)).open_until_ms)

        await until(is_open, seconds=20)
        await others_are_served(installation, hub)
        assert len(receiver.requests) == 5
        rows = [await delivery(hub.db, each) for each in sent]
        assert sum(row.charged for row in rows) == sum(row.attempts for row in rows) == 5
        assert {row.state for row in rows} == {"pending"}
        async with hub.db.transaction() as tx:
            await manage.resume(tx, hub.vault, None, provider.id, author=OPERATOR, now=datetime.now(UTC))
        hub.bell.ring()
        await settled(hub.db, *sent)
        assert len(receiver.requests) == 5 + len(sent)


async def others_are_served(installation: Installation, hub: Hub) -> None:
    """By then the worker has looked at all that is due."""
    async with RawReceiver() as receiver:
        await settled(hub.db, await send(hub, await provider_at(installation, receiver.url())))


@pytest.mark.parametrize("status", [429, 503])
async def test_a_receiver_that_asks_for_patience_is_left_alone_with_all_its_deliveries(
    installation: Installation, hub: Hub, status: int
) -> None:
    async with RawReceiver(response(status, "Retry-After: 3600")) as receiver:
        provider = await provider_at(installation, receiver.url())
        first = await send(hub, provider)
        await until_recorded(hub, first)
        later = await send(hub, provider)
        await others_are_served(installation, hub)
        assert len(receiver.requests) == 1
    row = await delivery(hub.db, first)
    assert (row.state, row.charged) == ("pending", 0 if status == 429 else 1)
    waits = (await provider_row(hub.db, provider)).waits_until_ms - row.created_ms
    assert 3600_000 <= waits < 4000_000
    assert (await delivery(hub.db, later)).attempts == 0


async def test_an_outcome_that_comes_after_its_lease_was_lost_is_not_recorded(
    installation: Installation, worker: Worker
) -> None:
    hub, gate = worker.hub, Gate()
    async with RawReceiver(gate) as receiver:
        sent = await send(hub, await provider_at(installation, receiver.url()))
        await when(lambda: gate.holding == 1)
        await change(hub.db, sent, lease="lse_of_another")
        gate.open()
        await when(lambda: hub.metrics.events.counts["lost_lease"] == 1)
    row = await delivery(hub.db, sent)
    assert (row.state, row.lease, row.attempts) == ("pending", "lse_of_another", 0)
    assert await attempts_of(hub.db, sent) == []
    assert worker.flights == {}


async def test_who_has_lost_a_lease_in_the_air_lets_go(installation: Installation, worker: Worker) -> None:
    hub, gate = worker.hub, Gate()
    async with RawReceiver(gate) as receiver:
        provider = await provider_at(installation, receiver.url())
        lost, kept = await send(hub, provider), await send(hub, provider)
        await when(lambda: gate.holding == 2)
        before = (await delivery(hub.db, kept)).lease_until_ms
        await change(hub.db, lost, lease="lse_of_another")
        await worker.renew()
        await when(lambda: [flight.leased.id for flight in worker.flights.values()] == [kept])
        assert hub.metrics.events.counts["lost_lease"] == 1
        assert (await delivery(hub.db, kept)).lease_until_ms >= before
        gate.open()
        await settled(hub.db, kept)
    assert (await delivery(hub.db, lost)).lease == "lse_of_another"


async def test_who_stood_still_for_longer_than_a_lease_sends_nothing_of_what_it_had_claimed(
    installation: Installation,
) -> None:
    """Somebody else may have begun; it would come twice, and nobody had died."""
    async with RawReceiver() as receiver, open_hub(installation, Metrics()) as hub:
        sent = await send(hub, await provider_at(installation, receiver.url()))
        worker = Worker(hub)
        claim = await worker._claim(1)
        worker._begin(replace(claim, asked_at=claim.asked_at - LEASE_MS / 1000))
        await when(lambda: not worker.flights)
        assert receiver.requests == []
        assert hub.metrics.events.counts["lost_lease"] == 1
    row = await delivery(hub.db, sent)
    assert (row.state, row.attempts, row.lease) == ("pending", 0, claim.leased[0].lease)


async def test_a_worker_that_claims_again_what_it_still_has_in_the_air_records_it(
    installation: Installation, worker: Worker
) -> None:
    """Its own lease was swept: it was stopped for a while, or the database was away for longer than a lease lasts."""
    hub, gate = worker.hub, Gate()
    async with RawReceiver(gate) as receiver:
        sent = await send(hub, await provider_at(installation, receiver.url()))
        await when(lambda: gate.holding == 1)
        with capture_logs() as lines:
            await change(hub.db, sent, lease=None, lease_until_ms=None)
            hub.bell.ring()
            await when(lambda: gate.holding == 2)
            gate.let_one_through()
            await when(lambda: hub.metrics.events.counts["lost_lease"] == 1)
            gate.let_one_through()
            await when(lambda: gate.holding == 0 and not worker.flights)
            await until_no_lease(hub, sent)
    assert [line for line in lines if line["log_level"] == "error"] == []
    assert await attempts_of(hub.db, sent) == [(1, 200, None)]


async def until_no_lease(hub: Hub, delivery_id: str) -> None:
    async def is_free() -> bool:
        return (await delivery(hub.db, delivery_id)).lease is None

    await until(is_free)


async def test_at_a_stop_what_is_in_the_air_arrives_and_is_not_sent_again(installation: Installation) -> None:
    gate = Gate()
    async with RawReceiver(gate) as receiver, open_hub(installation, Metrics()) as hub:
        provider = await provider_at(installation, receiver.url())
        async with AsyncExitStack() as stack:
            worker = await stack.enter_async_context(running_worker(hub))
            in_the_air = [await send(hub, provider) for _ in range(3)]
            await when(lambda: gate.holding == 3)
            worker.stopping.set()
            queued = await send(hub, provider)
            gate.open()
        for each in in_the_air:
            assert (await delivery(hub.db, each)).state == "delivered"
        row = await delivery(hub.db, queued)
        assert (row.state, row.lease, row.attempts) == ("pending", None, 0)
        async with running_worker(hub):
            await settled(hub.db, queued)
    assert sorted(each.all("webhook-id")[0] for each in received(receiver)) == sorted([*in_the_air, queued])


async def test_at_a_stop_what_does_not_arrive_in_time_is_given_back_at_once(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "GRACE_SECONDS", 0.1 - Budget().total)
    async with RawReceiver(hang) as receiver, open_hub(installation, Metrics()) as hub:
        async with running_worker(hub) as worker:
            sent = await send(hub, await provider_at(installation, receiver.url()))
            await when(lambda: len(receiver.requests) == 1)
        row = await delivery(hub.db, sent)
        assert (row.state, row.lease, row.attempts, row.charged) == ("pending", None, 0, 0)
        assert worker.flights == {}


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections made from now on do not wait for another's commit."""
    monkeypatch.setattr(database, "BUSY", timedelta(milliseconds=20))


@on_sqlite
async def test_a_database_that_is_locked_while_an_outcome_is_recorded_costs_no_second_request(
    impatience: None, installation: Installation, location: str
) -> None:
    gate = Gate()
    async with working(installation) as worker, RawReceiver(gate) as receiver:
        sent = await send(worker.hub, await provider_at(installation, receiver.url()))
        await when(lambda: gate.holding == 1)
        path = location.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)) as other:
            with capture_logs() as lines:
                await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")  # the worker may be writing, and must go on
                gate.open()
                await when(lambda: "could not record outcomes; trying again" in said(lines))
                other.execute("ROLLBACK")
                await settled(worker.hub.db, sent)
        assert len(receiver.requests) == 1
        assert await attempts_of(worker.hub.db, sent) == [(1, 200, None)]


@on_postgres
async def test_a_database_that_goes_away_while_an_outcome_is_recorded_costs_no_second_request(
    installation: Installation, worker: Worker, location: str
) -> None:
    hub, gate = worker.hub, Gate()
    async with RawReceiver(gate) as receiver:
        sent = await send(hub, await provider_at(installation, receiver.url()))
        await when(lambda: gate.holding == 1)
        other = await asyncpg.connect(location)
        with capture_logs() as lines:
            async with other.transaction():
                await other.execute("LOCK TABLE attempts IN ACCESS EXCLUSIVE MODE")
                gate.open()

                async def was_cut_off() -> bool:
                    await other.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
                    )
                    return "could not record outcomes; trying again" in said(lines)

                await until(was_cut_off, seconds=20)
        await other.close()
        await settled(hub.db, sent)
        assert len(receiver.requests) == 1
    assert await attempts_of(hub.db, sent) == [(1, 200, None)]


def said(lines: list[Any]) -> list[str]:
    return [line["event"] for line in lines]


@on_postgres
async def test_what_another_process_accepts_wakes_the_worker(
    installation: Installation, worker: Worker, location: str
) -> None:
    worker.poll_seconds = 3600
    async with RawReceiver() as receiver, another_process(installation, location) as other:
        provider = await provider_at(installation, receiver.url())

        async def is_listening() -> bool:
            async with other.db.reading() as tx:
                listening = (
                    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
                )
                return bool((await tx.execute(text(listening))).scalar_one())

        await until(is_listening)
        for number in range(5):
            accepted = await notify(other, provider, f"Number {number}", "x")
            await settled(worker.hub.db, accepted.deliveries[0].id)
            await when(lambda: not worker.flights)


async def test_what_could_not_be_written_down_counts_once_when_it_is(installation: Installation) -> None:
    """Else a breaker would open after half as many failures as it should."""
    async with RawReceiver(response(500)) as receiver, open_hub(installation, Metrics()) as hub:
        provider = await provider_at(installation, receiver.url())
        await send(hub, provider)
        worker = Worker(hub)
        (leased,) = (await worker._claim(1)).leased
        outcome = await attempt(hub.sender, leased, schedule=hub.settings.retry_schedule, claimed_at=time.monotonic())
        for statement in ("ALTER TABLE attempt_counts RENAME TO away", "ALTER TABLE away RENAME TO attempt_counts"):
            async with hub.db.transaction() as tx:
                await tx.execute(text(statement))
            with suppress(SQLAlchemyError):
                await worker._record_all([outcome])
        async with hub.db.reading() as tx:
            stored = (await tx.execute(select(providers.c.recent).where(providers.c.id == provider.id))).scalar_one()
        assert list(Window.read(stored).seconds.values()) == [(1, 1)]
