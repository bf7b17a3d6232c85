"""What a worker does beside delivering: renew leases, sweep lost ones, take up recoveries, forget what is old."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from sqlalchemy import func, select

from billhook.delivery import holding, queue, replay, retention
from billhook.delivery.context import Hub
from billhook.delivery.outcomes import Memories
from billhook.errors import BillhookError
from billhook.groups.store import providers
from billhook.storage.clock import now_ms
from billhook.storage.database import Transaction

SWEEP_SECONDS = 10.0  # leases last for 60: what the dead have left is delivered within 75
MEND_SECONDS = 15.0
FORGET_SECONDS = 600.0
BREATH_SECONDS = 0.05  # between two steps of forgetting, for those who deliver
DAY_MS = 24 * 3600 * 1000

log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[None]]


class Chores:
    def __init__(self, hub: Hub, memories: Memories, renew: Work) -> None:
        self.hub, self.memories = hub, memories
        self.works: list[tuple[str, float, Work]] = [
            ("renew leases", queue.RENEW_SECONDS, renew),
            ("take back lost leases", SWEEP_SECONDS, self.sweep),
            ("mend the queue", MEND_SECONDS, self.mend),
            ("forget what is old", FORGET_SECONDS, self.forget),
        ]

    async def run(self) -> None:
        """Each in a loop of its own, so that a long one keeps no other waiting. Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for what, seconds, work in self.works:
                group.create_task(_repeat(what, seconds, work))

    async def sweep(self) -> None:
        async with self.hub.db.transaction() as tx:
            swept = await queue.sweep(tx)
        if swept:
            log.warning("took back deliveries of a worker that is gone", deliveries=swept)
            self.hub.bell.ring()

    async def mend(self) -> None:
        async with self.hub.db.transaction() as tx:
            moved = mended = await holding.reconcile(tx)
            opened = select(func.count()).where(providers.c.open_until_ms > now_ms(), providers.c.deleted_at.is_(None))
            self.hub.metrics.open_breakers.set((await tx.execute(opened)).scalar_one())
            now = int((await tx.execute(select(now_ms()))).scalar_one())
        while moved >= holding.STEP:
            async with self.hub.db.transaction() as tx:
                moved = await holding.reconcile(tx)
        await self.recover()
        self.forget_providers(now)  # they are kept by the database's clock
        if mended:
            self.hub.bell.ring()

    async def recover(self) -> None:
        """Step by step until no recovery is running; whoever dies on the way leaves it to the next."""
        is_running = True
        while is_running:
            async with self.hub.db.transaction() as tx:
                recovery = await replay.next_recovery(tx)
                is_running = recovery is not None
                if recovery is not None:
                    await replay.step(tx, recovery)
            if is_running:
                self.hub.bell.ring()

    async def forget(self) -> None:
        async with self.hub.db.reading() as tx:
            now = int((await tx.execute(select(now_ms()))).scalar_one())
        before_ms = now - self.hub.settings.retention_days * DAY_MS
        forgetters: list[Callable[[Transaction], Awaitable[int]]] = [
            lambda tx: retention.forget_deliveries(tx, before_ms=before_ms),
            lambda tx: retention.forget_notifications(tx, before_ms=before_ms),
            lambda tx: retention.forget_recoveries(tx, before_ms=before_ms),
            lambda tx: retention.forget_counts(tx, before_ms=before_ms),
            retention.forget_keys,
        ]
        for forget in forgetters:
            forgotten = retention.STEP
            while forgotten >= retention.STEP:
                async with self.hub.db.transaction() as tx:
                    forgotten = await forget(tx)
                await asyncio.sleep(BREATH_SECONDS)

    def forget_providers(self, now: int) -> None:
        for provider_id in [each for each, memory in self.memories.items() if memory.is_old(now)]:
            del self.memories[provider_id]


async def _repeat(what: str, seconds: float, work: Work) -> None:
    """Now, and then again and again: a worker that has just started finds what the one before it has left."""
    while True:
        try:
            await work()
        except BillhookError as error:
            log.warning(f"could not {what}; trying again", detail=error.detail)
        except Exception:  # the edge: a bug in one round must not end all later ones
            log.exception(f"could not {what}; trying again")
        await asyncio.sleep(seconds)
