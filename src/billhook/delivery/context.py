"""What the handlers and the worker of this package work with; made once by the composition root."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.exc import IntegrityError
from starlette.requests import Request

from billhook.accounts.installation import Installation
from billhook.delivery.accept import Accepted, Answer, Send, accept
from billhook.delivery.bell import Bell
from billhook.delivery.metrics import DeliveryMetrics
from billhook.delivery.trial import Trials
from billhook.groups.directory import Directory
from billhook.outbound.client import Sender
from billhook.outbound.guard import Guard
from billhook.settings import Settings
from billhook.storage.commits import GroupCommit
from billhook.storage.database import Database
from billhook.storage.notices import announce
from billhook.storage.vault import Vault
from billhook.web.metrics import Metrics

CHANNEL = "billhook_work"


@dataclass(frozen=True)
class Hub:
    settings: Settings
    db: Database
    vault: Vault
    directory: Directory
    sender: Sender
    bell: Bell
    metrics: DeliveryMetrics
    accepting: GroupCommit[Send, Accepted]
    trials: Trials

    async def send(self, send: Send) -> Accepted:
        """Returns when it is committed."""
        return await self.accepting.add(send)


@asynccontextmanager
async def open_hub(installation: Installation, metrics: Metrics) -> AsyncIterator[Hub]:
    db, directory, bell = installation.db, Directory(installation.vault), Bell()

    async def commit(sends: list[Send]) -> list[Answer]:
        answers = await _accept(db, directory, sends)
        bell.ring()
        return answers

    settings = installation.settings
    sender = Sender(Guard(settings.outbound_allow))
    measured = DeliveryMetrics(metrics.registry)
    hub = Hub(settings, db, installation.vault, directory, sender, bell, measured, GroupCommit(commit), Trials(sender))
    try:
        yield hub
    finally:
        await hub.accepting.drain()
        await sender.close()


async def _accept(db: Database, directory: Directory, sends: list[Send]) -> list[Answer]:
    try:
        return await _accept_once(db, directory, sends)
    except IntegrityError:  # another process has used one of the Idempotency-Keys in this very moment
        return await _accept_once(db, directory, sends)


async def _accept_once(db: Database, directory: Directory, sends: list[Send]) -> list[Answer]:
    async with db.transaction() as tx:
        answers = await accept(tx, directory, sends)
        await announce(tx, CHANNEL)
    return answers


def hub_of(request: Request) -> Hub:
    hub: Hub = request.app.state.hub
    return hub
