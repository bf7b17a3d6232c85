"""Groups with a provider each, a client that may send, and deliveries queued the way the product queues them."""

import asyncio
import json
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle, islice
from uuid import uuid4

from sqlalchemy import func, select

from bench.credentials import Credentials, notification_request
from bench.engines import Site
from bench.servers import Failed, Server
from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation, open_installation
from billhook.accounts.organizations import create_organization, find_organization
from billhook.auth import manage as clients
from billhook.auth.manage import Author, ClientSpec
from billhook.delivery.accept import Accepted, Send, accept
from billhook.delivery.store import IS_PENDING, deliveries
from billhook.groups import manage as groups
from billhook.groups.directory import Directory
from billhook.groups.manage import ProviderSpec
from billhook.providers.kinds import Message
from billhook.storage.database import Transaction, open_database

MESSAGE = Message("Budget exceeded", "The budget of project A is exceeded by 12 %. " * 5)
BODY = json.dumps({"title": MESSAGE.title, "content": MESSAGE.content})
OPERATOR = Author(Actor("cli:bench"))
BATCH = 500  # sends in one transaction
MOST = 1000  # groups an organization may have


@dataclass(frozen=True)
class Door:
    """Where notifications go in: a group with one provider."""

    organization_id: str
    group_id: str
    provider_id: str


def make_doors(site: Site, url: str, count: int, *, organizations: int = 1) -> list[Door]:
    """In turn over the first organization and as many new ones as it takes."""

    async def work() -> list[Door]:
        async with open_installation(site.settings) as installation:
            async with installation.db.transaction() as tx:
                owners = [(await find_organization(tx, None)).id]
                for number in range(1, organizations):
                    owners.append((await create_organization(tx, f"bench {number}", now=datetime.now(UTC))).id)
                return [await _make_door(tx, installation, owner, url) for owner in islice(cycle(owners), count)]

    return asyncio.run(work())


async def _make_door(tx: Transaction, installation: Installation, organization_id: str, url: str) -> Door:
    now = datetime.now(UTC)
    group = await groups.create_group(
        tx, uuid4().hex, organization_id=organization_id, most=MOST, author=OPERATOR, now=now
    )
    spec = ProviderSpec("Webhook", "bench", {"server_url": url, "request_method": "POST"})
    provider, _ = await groups.create_provider(tx, installation.vault, group.id, spec, most=1, author=OPERATOR, now=now)
    return Door(organization_id, group.id, provider.id)


def queue_up(site: Site, doors: list[Door], count: int) -> None:
    """That many deliveries, due now, in turn over the doors."""
    sends = [Send(door.organization_id, door.group_id, "client:bench", MESSAGE) for door in doors]
    asked = list(islice(cycle(sends), count))

    async def work() -> None:
        async with open_installation(site.settings) as installation:
            directory = Directory(installation.vault)
            for start in range(0, count, BATCH):
                async with installation.db.transaction() as tx:
                    answers = await accept(tx, directory, asked[start : start + BATCH])
                if not all(isinstance(answer, Accepted) and len(answer.deliveries) == 1 for answer in answers):
                    raise Failed("a notification of the backlog was not accepted")

    asyncio.run(work())


def count_pending(site: Site) -> int:
    async def work() -> int:
        db = open_database(site.location)
        try:
            async with db.reading() as tx:
                pending = select(func.count()).where(deliveries.c.state == IS_PENDING)
                return int((await tx.execute(pending)).scalar_one())
        finally:
            await db.close()

    return asyncio.run(work())


def make_client(site: Site) -> Credentials:
    """One of the first organization that may send."""

    async def work() -> Credentials:
        async with open_installation(site.settings) as installation:
            async with installation.db.transaction() as tx:
                owner = await find_organization(tx, None)
                spec = ClientSpec(name="bench", scopes=("notifications:send",))
                client, secret = await clients.create(
                    tx, installation.vault, spec, organization_id=owner.id, author=OPERATOR, now=datetime.now(UTC)
                )
        return Credentials(client.id, secret.text)

    return asyncio.run(work())


def send_requests(server: Server, credentials: Credentials, doors: list[Door]) -> tuple[str, ...]:
    """A request for each door that sends through it, with a token that the server has just given."""
    token = _token(server, credentials)
    return tuple(notification_request(token, door.group_id, BODY) for door in doors)


def _token(server: Server, credentials: Credentials) -> str:
    body = json.dumps({"client_id": credentials.client_id, "client_secret": credentials.client_secret}).encode()
    url = f"http://127.0.0.1:{server.port}/auth"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(json.load(answer)["data"]["access_token"])
