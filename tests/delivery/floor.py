"""The delivery floor from inside: a provider to send to, a notification sent, the rows as they are stored."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from prometheus_client import Gauge
from sqlalchemy import Row, select, update

from billhook.accounts.installation import Installation
from billhook.delivery.accept import Accepted, Send
from billhook.delivery.context import Hub, open_hub
from billhook.delivery.store import attempts, deliveries
from billhook.delivery.worker import Worker, running_worker
from billhook.groups.model import Provider
from billhook.groups.store import providers
from billhook.providers.kinds import Message
from billhook.storage.database import Database, open_database
from billhook.web.metrics import Metrics
from tests.groups.setting import make_group, make_provider
from tests.support import until

PATIENCE = 20.0  # seconds; all of it takes milliseconds on a machine that is not busy


async def provider_at(installation: Installation, url: str, **fields: Any) -> Provider:
    """In a group of its own."""
    group = await make_group(installation, f"Group of {url}")
    made, _ = await make_provider(installation, group.id, **{"server_url": url, "request_headers": []} | fields)
    return made


async def send(hub: Hub, provider: Provider, title: str = "Budget", content: str = "exceeded") -> str:
    """The id of its one delivery."""
    accepted = await notify(hub, provider, title, content)
    return accepted.deliveries[0].id


async def notify(hub: Hub, provider: Provider, title: str, content: str) -> Accepted:
    message = Message(title, content)
    return await hub.send(Send(provider.organization_id, provider.group_id, "client:test", message))


async def delivery(db: Database, delivery_id: str) -> Row[Any]:
    async with db.reading() as tx:
        return (await tx.execute(select(deliveries).where(deliveries.c.id == delivery_id))).one()


async def change(db: Database, delivery_id: str, **values: Any) -> None:
    async with db.transaction() as tx:
        await tx.execute(update(deliveries).where(deliveries.c.id == delivery_id).values(**values))


async def attempts_of(db: Database, delivery_id: str) -> list[tuple[int, int | None, str | None]]:
    """Number, status and error of each, the oldest first."""
    query = select(attempts).where(attempts.c.delivery_id == delivery_id).order_by(attempts.c.number)
    async with db.reading() as tx:
        return [(row.number, row.status, row.error) for row in await tx.execute(query)]


async def provider_row(db: Database, provider: Provider) -> Row[Any]:
    async with db.reading() as tx:
        return (await tx.execute(select(providers).where(providers.c.id == provider.id))).one()


async def settled(db: Database, *delivery_ids: str, state: str = "delivered") -> None:
    async def are_settled() -> bool:
        query = select(deliveries.c.state).where(deliveries.c.id.in_(delivery_ids))
        async with db.reading() as tx:
            return list((await tx.execute(query)).scalars()) == [state] * len(delivery_ids)

    await until(are_settled, seconds=PATIENCE)


async def when(holds: Callable[[], bool]) -> None:
    async def does() -> bool:
        return holds()

    await until(does, seconds=PATIENCE)


@asynccontextmanager
async def working(installation: Installation) -> AsyncIterator[Worker]:
    """A worker with a hub of its own, as another process has it."""
    async with open_hub(installation, Metrics()) as hub, running_worker(hub) as worker:
        yield worker


@asynccontextmanager
async def another_process(installation: Installation, location: str) -> AsyncIterator[Hub]:
    """A hub over connections of its own."""
    db = open_database(location)
    try:
        async with open_hub(replace(installation, db=db), Metrics()) as hub:
            yield hub
    finally:
        await db.close()


def gauged(gauge: Gauge) -> float:
    """What Prometheus would read."""
    return next(sample.value for metric in gauge.collect() for sample in metric.samples)
