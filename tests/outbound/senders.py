"""Senders for tests: to this machine only, in no hurry unless they are told to be."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

from billhook.outbound.client import Sender
from billhook.outbound.guard import Guard
from billhook.outbound.request import Exchange, Outgoing

THIS_MACHINE = Guard((ip_network("127.0.0.0/8"),))
NOWHERE = Guard()
TRUSTING_THE_SYSTEM = ssl.create_default_context()  # once: to load all authorities takes as long as a test
BODY = b'{"title":"Budget","content":"exceeded"}'


@asynccontextmanager
async def sending(guard: Guard = THIS_MACHINE, **options: Any) -> AsyncIterator[Sender]:
    sender = Sender(guard, **{"ssl_context": TRUSTING_THE_SYSTEM, **options})
    yield sender
    await sender.close()


def post(url: str) -> Outgoing:
    return Outgoing("POST", url, (("Content-Type", "application/json"),), BODY)


def get(url: str) -> Outgoing:
    return Outgoing("GET", url, (), None)


async def send_once(outgoing: Outgoing, guard: Guard = THIS_MACHINE, **options: Any) -> Exchange:
    async with sending(guard, **options) as sender:
        return await sender.send(outgoing)
