"""A walk through more providers than fit a page: what was met on any of them counts at its end."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import chain

import pytest
from sqlalchemy import update

from billhook.accounts.installation import Installation
from billhook.delivery import queue
from billhook.delivery.bell import Bell
from billhook.delivery.context import Hub, open_hub
from billhook.delivery.worker import Worker
from billhook.groups.store import providers
from billhook.web.metrics import Metrics
from tests.delivery.floor import change, delivery, gauged, provider_at, send, settled, when, working
from tests.delivery.marks import tuned
from tests.delivery.receivers import Gate
from tests.delivery.support import statements_of
from tests.outbound.receivers import RawReceiver, hang

HOUR_MS = 3_600_000


class Resting(Bell):
    """Remembers how long it was asked to wait, and waits no longer."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []

    async def wait(self, seconds: float) -> None:
        self.rests.append(seconds)
        await super().wait(0)


async def walk_once(hub: Hub) -> list[float]:
    """How long a worker rests until it has walked through all providers."""
    bell = Resting()
    worker = Worker(replace(hub, bell=bell))
    running = asyncio.create_task(worker.run())
    await when(lambda: bool(bell.rests))
    worker.stop()
    await running
    return bell.rests[:1]


@pytest.fixture
async def waiting(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Hub, list[str]]]:
    """Five providers, two to a page, each with a delivery that is due in an hour."""
    monkeypatch.setattr(queue, "PAGE", 2)
    async with open_hub(installation, Metrics()) as hub:
        providers = [await provider_at(installation, f"https://receiver.example/{number}") for number in range(5)]
        sent = [await send(hub, provider) for provider in providers]
        for each in sent:
            await change(hub.db, each, due_ms=(await delivery(hub.db, each)).created_ms + HOUR_MS)
        yield hub, sent


async def test_when_nothing_is_due_there_is_one_rest_for_all_pages(waiting: tuple[Hub, list[str]]) -> None:
    hub, _ = waiting
    assert await walk_once(hub) == [Worker(hub).poll_seconds]


@pytest.mark.parametrize("place", range(5))
async def test_a_rest_ends_when_the_first_of_all_pages_is_due(waiting: tuple[Hub, list[str]], place: int) -> None:
    hub, sent = waiting
    await change(hub.db, sent[place], due_ms=(await delivery(hub.db, sent[place])).created_ms + 900)
    (rest,) = await walk_once(hub)
    assert 0 <= rest <= 0.9


@pytest.mark.parametrize("place", range(5))
async def test_the_oldest_that_is_due_is_the_oldest_of_all_pages(waiting: tuple[Hub, list[str]], place: int) -> None:
    hub, sent = waiting
    row = await delivery(hub.db, sent[place])
    await change(hub.db, sent[place], due_ms=row.created_ms - HOUR_MS)
    async with hub.db.transaction() as tx:
        later = row.created_ms + HOUR_MS
        await tx.execute(update(providers).where(providers.c.id == row.provider_id).values(open_until_ms=later))
    await walk_once(hub)
    assert gauged(hub.metrics.oldest_due) >= HOUR_MS / 1000


@tuned(in_flight_per_process=1)
async def test_who_ran_out_of_places_in_the_middle_looks_at_the_first_pages_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "PAGE", 1)
    gate = Gate()
    async with RawReceiver(gate) as receiver, working(installation) as worker:
        hub, worker.poll_seconds = worker.hub, 3600
        provider = await provider_at(installation, receiver.url())
        first = await send(hub, provider)
        await when(lambda: gate.holding == 1)
        later = [await send(hub, provider) for _ in range(3)]
        gate.open()
        await settled(hub.db, first, *later)


LIMITED = [
    {"in_flight_per_provider": 2},
    {"in_flight_per_organization": 2},
    {"in_flight_per_process": 2},
]


@pytest.mark.parametrize("tuning", LIMITED, ids=[*chain.from_iterable(LIMITED)])
async def test_who_waits_for_a_place_is_served_as_soon_as_one_is_free(
    installation: Installation, tuning: dict[str, int]
) -> None:
    """Whichever limit keeps it waiting; nobody looks from time to time here."""
    gate = Gate()
    async with RawReceiver(gate) as receiver, working(installation) as worker:
        worker.poll_seconds = 3600
        providers = [await provider_at(installation, receiver.url(f"/{number}")) for number in range(2)]
        sent = [await send(worker.hub, providers[number % 2]) for number in range(12)]
        await when(lambda: gate.holding == (4 if "in_flight_per_provider" in tuning else 2))
        gate.open()
        await settled(worker.hub.db, *sent)


async def test_nobody_looks_again_for_a_place_that_nobody_waits_for(installation: Installation) -> None:
    """Not even beside a provider that hangs while much waits for it."""
    async with RawReceiver(hang) as hanging, RawReceiver() as well, working(installation) as worker:
        worker.poll_seconds = 3600
        stuck, other = [await provider_at(installation, each.url()) for each in (hanging, well)]
        for _ in range(30):
            await send(worker.hub, stuck)
        await settled(worker.hub.db, await send(worker.hub, other))
        await when(lambda: len(worker.flights) == 10)
        async with statements_of(worker.hub.db) as statements:
            for _ in range(5):
                await settled(worker.hub.db, await send(worker.hub, other))
                await when(lambda: len(worker.flights) == 10)
        walks = [statement for statement, _ in statements if "RECURSIVE walk" in statement]
        for flight in list(worker.flights.values()):
            flight.task.cancel()
    assert len(walks) == 5
