"""The worker: claim, attempt, record. What it holds it renews, and gives back when it stops."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from billhook.delivery import holding, queue
from billhook.delivery.attempt import attempt
from billhook.delivery.chores import Chores
from billhook.delivery.context import CHANNEL, Hub
from billhook.delivery.fairness import Limits
from billhook.delivery.outcomes import Memories, Outcome, record
from billhook.delivery.queue import Claim, Leased
from billhook.delivery.walk import Walk
from billhook.errors import BillhookError
from billhook.outbound.client import Budget, TooLate
from billhook.storage.commits import GroupCommit
from billhook.storage.notices import follow

POLL_SECONDS = 1.0  # at most one query a second when there is nothing to do
LISTENING_POLL_SECONDS = 2.0  # where others announce their work, looking is only for what was missed
AGAIN_SECONDS = 0.5  # after bad weather
GRACE_SECONDS = 3.0  # at a stop, beyond the longest attempt: to record it

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Flight:
    """A delivery in the air."""

    leased: Leased
    task: asyncio.Task[None]
    is_decided: bool = False  # the receiver has had its say; only writing it down is left


class Worker:
    def __init__(self, hub: Hub) -> None:
        settings = hub.settings
        self.hub = hub
        self.limits = Limits(
            settings.in_flight_per_provider, settings.in_flight_per_organization, settings.in_flight_per_process
        )
        self.flights: dict[tuple[str, str], Flight] = {}  # by delivery and lease: it may be claimed again
        self.memories: Memories = {}
        self.recording: GroupCommit[Outcome, bool] = GroupCommit(self._record_all)
        self.stopping = asyncio.Event()
        self.poll_seconds = POLL_SECONDS if hub.db.is_sqlite else LISTENING_POLL_SECONDS
        self._walk = Walk()
        hub.metrics.in_flight.set_function(lambda: len(self.flights))

    async def run(self) -> None:
        """Until told to stop. Bad weather and bugs cost time, never the worker."""
        while not self.stopping.is_set():
            try:
                rest = await self._round()
            except BillhookError as error:
                log.warning("could not claim deliveries; trying again", detail=error.detail)
                rest = AGAIN_SECONDS
            except Exception:  # the edge: a bug in one round must not end all later ones
                log.exception("could not claim deliveries; trying again")
                rest = AGAIN_SECONDS
            await self.hub.bell.wait(rest)

    async def _round(self) -> float:
        """Walk through all that waits, and begin what may be attempted. How long to rest if nobody rings."""
        walk = self._walk = self._walk.resumed()
        while not self.stopping.is_set():
            free = self.limits.per_process - len(self.flights)
            if free <= 0:
                return walk.rest_for_a_place(longest=self.poll_seconds)
            claim = await self._claim(free)
            walk.go_on(claim, time.monotonic())
            self._begin(claim)
            if not claim.next_provider:
                self.hub.metrics.oldest_due.set(walk.oldest_ms / 1000)
                return walk.rest(time.monotonic(), longest=self.poll_seconds)
        return 0.0

    async def _claim(self, free: int) -> Claim:
        async with self.hub.db.transaction() as tx:
            claim = await queue.claim(tx, self.hub.directory, after=self._walk.after, free=free, limits=self.limits)
            for provider in claim.unsettled:
                await holding.settle(tx, provider.id, is_deleted=provider.is_deleted)
        return claim

    def _begin(self, claim: Claim) -> None:
        for leased in claim.leased:
            self.hub.metrics.lag.observe((leased.claimed_ms - leased.due_ms) / 1000)
            self.flights[leased.id, leased.lease] = Flight(
                leased, asyncio.create_task(self._deliver(leased, claim.asked_at))
            )

    async def _deliver(self, leased: Leased, claimed_at: float) -> None:
        is_done = False
        try:
            schedule = self.hub.settings.retry_schedule
            outcome = await attempt(self.hub.sender, leased, schedule=schedule, claimed_at=claimed_at)
            self.hub.metrics.count(outcome.exchange)
            self.flights[leased.id, leased.lease].is_decided = True
            await self._record(outcome)
            is_done = outcome.ok
        except TooLate:
            self._lose(leased.id, "a lease was lost before anything was sent")
        except Exception:  # the edge: a bug in one attempt ends with its lease, and the delivery is claimed again
            log.exception("an attempt failed for a reason of ours", delivery=leased.id)
        finally:
            del self.flights[leased.id, leased.lease]
            if self._walk.land(leased) or not is_done:  # what failed is due again, at a moment that nobody knows yet
                self.hub.bell.ring()

    async def _record(self, outcome: Outcome) -> None:
        """Until it is written or refused: what a receiver has taken must not be sent again for want of a database."""
        while True:
            try:
                was_written = await self.recording.add(outcome)
                break
            except BillhookError:
                await asyncio.sleep(AGAIN_SECONDS)
        if not was_written:
            self._lose(outcome.leased.id, "an outcome came too late: the lease was lost")

    def _lose(self, delivery_id: str, how: str) -> None:
        self.hub.metrics.events.counts["lost_lease"] += 1
        log.warning(how, delivery=delivery_id)

    async def _record_all(self, outcomes: list[Outcome]) -> list[bool | BillhookError]:
        touched = {outcome.leased.provider.id for outcome in outcomes} & self.memories.keys()
        memories = {each: self.memories[each].copy() for each in touched}  # what is not committed has not happened
        try:
            async with self.hub.db.transaction() as tx:
                written = await record(tx, outcomes, memories)
        except BillhookError as error:
            log.warning("could not record outcomes; trying again", detail=error.detail, outcomes=len(outcomes))
            raise
        self.memories |= memories
        return [outcome.leased.id in written for outcome in outcomes]

    async def renew(self) -> None:
        """Keep what is in the air; who has lost a lease stops, since somebody else has begun."""
        held = dict(self.flights)
        if not held:
            return
        async with self.hub.db.transaction() as tx:
            renewed = await queue.renew(tx, list(held))
        for name, flight in held.items():
            if name[0] not in renewed and name in self.flights and not flight.is_decided:
                self._lose(name[0], "a lease was lost in the air")
                flight.task.cancel()

    def stop(self) -> None:
        """Claim nothing more."""
        self.stopping.set()
        self.hub.bell.ring()

    async def land(self) -> None:
        """Let what is in the air arrive, and give the rest back at once."""
        self.stop()
        await _wait_for(self.flights.values(), seconds=Budget().total + GRACE_SECONDS)
        await self._give_back([flight for flight in self.flights.values() if not flight.is_decided])
        # What a receiver has taken is never given back: if it cannot be written down, its lease must lapse.
        await _wait_for(self.flights.values(), seconds=GRACE_SECONDS)
        for flight in self.flights.values():
            flight.task.cancel()
        await self.recording.drain()

    async def _give_back(self, late: list[Flight]) -> None:
        if not late:
            return
        for flight in late:
            flight.task.cancel()
        await _wait_for(late, seconds=GRACE_SECONDS)
        try:
            async with self.hub.db.transaction() as tx:
                await queue.release(tx, [(flight.leased.id, flight.leased.lease) for flight in late])
        except BillhookError as error:
            log.warning("could not give deliveries back; their leases will lapse", detail=error.detail)


async def _wait_for(flights: Iterable[Flight], *, seconds: float) -> None:
    if tasks := [flight.task for flight in flights]:
        await asyncio.wait(tasks, timeout=seconds)


@asynccontextmanager
async def running_worker(hub: Hub) -> AsyncIterator[Worker]:
    """Delivering, from here to the end of the block."""
    hub.metrics.tell_of_work()
    worker = Worker(hub)
    chores = Chores(hub, worker.memories, worker.renew)
    claiming = asyncio.create_task(worker.run())
    beside = [
        asyncio.create_task(follow(hub.db, CHANNEL, lambda _word: hub.bell.ring())),
        asyncio.create_task(chores.run()),
    ]
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait([claiming])
        await worker.land()
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
