"""The hub: what is sent through it is committed when it returns, and the worker is told."""

import asyncio

import pytest
from sqlalchemy import func, select

from billhook.accounts.installation import Installation
from billhook.delivery.accept import Send
from billhook.delivery.context import Hub, open_hub
from billhook.delivery.store import deliveries, notifications
from billhook.errors import GroupNotFound, NotificationConflict
from billhook.groups.model import Provider
from billhook.providers.kinds import Message
from billhook.web.metrics import Metrics
from tests.delivery.floor import another_process, provider_at, send

LONG = 3600.0


async def count(hub: Hub) -> tuple[int, int]:
    async with hub.db.reading() as tx:
        found = [await tx.execute(select(func.count()).select_from(each)) for each in (notifications, deliveries)]
        return found[0].scalar_one(), found[1].scalar_one()


def wanted(provider: Provider, number: int = 0, key: str | None = None) -> Send:
    return Send(provider.organization_id, provider.group_id, "client:test", Message(f"Number {number}", "x"), key)


async def test_what_is_sent_together_is_all_there_when_it_is_answered(installation: Installation) -> None:
    provider = await provider_at(installation, "https://receiver.example/")
    async with open_hub(installation, Metrics()) as hub:
        accepted = await asyncio.gather(*(hub.send(wanted(provider, number)) for number in range(50)))
        assert await count(hub) == (50, 50)
    assert len({each.id for each in accepted}) == len({each.deliveries[0].id for each in accepted}) == 50


async def test_one_that_is_refused_does_not_harm_those_beside_it(installation: Installation) -> None:
    provider = await provider_at(installation, "https://receiver.example/")
    absent = Send(provider.organization_id, "grp_00000000000000000000000000", "client:test", Message("t", "c"))
    async with open_hub(installation, Metrics()) as hub:
        both = await asyncio.gather(hub.send(absent), hub.send(wanted(provider)), return_exceptions=True)
        assert isinstance(both[0], GroupNotFound)
        assert await count(hub) == (1, 1)


async def test_sending_rings_the_bell(installation: Installation) -> None:
    provider = await provider_at(installation, "https://receiver.example/")
    async with open_hub(installation, Metrics()) as hub:
        waiting = asyncio.create_task(hub.bell.wait(LONG))
        await send(hub, provider)
        await waiting


async def test_two_processes_that_use_one_idempotency_key_at_once_send_once(
    installation: Installation, location: str
) -> None:
    provider = await provider_at(installation, "https://receiver.example/")
    async with open_hub(installation, Metrics()) as one, another_process(installation, location) as other:
        sends = [hub.send(wanted(provider, key=f"k{number % 10}")) for number in range(40) for hub in (one, other)]
        accepted = await asyncio.gather(*sends)
        assert len({each.id for each in accepted}) == 10
        assert await count(one) == (10, 10)
        with pytest.raises(NotificationConflict):
            await other.send(wanted(provider, 1, key="k0"))


async def test_closing_waits_for_what_is_being_accepted(installation: Installation) -> None:
    provider = await provider_at(installation, "https://receiver.example/")
    async with open_hub(installation, Metrics()) as hub:
        sending = asyncio.create_task(hub.send(wanted(provider)))
        await asyncio.sleep(0)
    assert sending.done()
    assert await count(hub) == (1, 1)
    await sending
