"""Fill an installation with clients before it is served."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from sqlalchemy import insert

from bench.credentials import Credentials
from bench.servers import SCOPES
from billhook.accounts.installation import Installation, open_installation
from billhook.accounts.organizations import find_organization
from billhook.auth import manage, model, store
from billhook.auth.model import Client, ClientState
from billhook.auth.secret import Digest, NewSecret, new_secret
from billhook.settings import Settings
from billhook.storage import feed
from billhook.storage.ids import new_id

ROTATED = 500  # clients a run takes turns over: enough that no cache of "the last client" can help
BATCH = 5000

Made = tuple[Client, NewSecret]


def seed_clients(data_dir: Path, count: int) -> list[Credentials]:
    """Register `count` clients in the installation at `data_dir`, and return the credentials of some of them.

    The rows are those that `client create` would write, with a real secret each, through the same tables; only the
    cost of one command and one transaction per client is saved. Creates the database when there is none. Returns
    min(count, ROTATED) credentials spread evenly over the clients, not the first ones.
    """
    return seed_installation(Settings.whatever_is_set(data_dir=data_dir), count)


def seed_installation(settings: Settings, count: int) -> list[Credentials]:
    """The same on any database."""
    made = asyncio.run(_seed(settings, count))
    step = max(1, count // ROTATED)
    return [Credentials(client.id, secret.text) for client, secret in made[::step]][:ROTATED]


async def _seed(settings: Settings, count: int) -> list[Made]:
    async with open_installation(settings) as installation:
        async with installation.db.reading() as tx:
            owner = await find_organization(tx, None)
        made = [(_client(number, owner.id), new_secret()) for number in range(count)]
        remaining = iter(made)
        while batch := list(islice(remaining, BATCH)):
            await _insert(installation, batch)
    return made


async def _insert(installation: Installation, batch: list[Made]) -> None:
    digest = manage.secret_digest(installation.vault)
    async with installation.db.transaction() as tx:
        version = await feed.advance(tx)
        rows = [store.client_row(client) | {"version": version} for client, _ in batch]
        await tx.execute(insert(store.clients), rows)
        await tx.execute(insert(store.client_secrets), list(_secret_rows(batch, digest)))


def _secret_rows(batch: list[Made], digest: Digest) -> Iterator[dict[str, object]]:
    for client, secret in batch:
        row = {"id": secret.id, "client_id": client.id, "hint": secret.hint, "created_at": client.created_at}
        yield row | {"digest": digest(secret.text)}


def _client(number: int, organization_id: str) -> Client:
    return Client(
        id=new_id("cli"),
        organization_id=organization_id,
        name=f"robot {number}",
        description="",
        scopes=SCOPES,
        lifespan=model.DEFAULT_LIFESPAN,
        networks=(),
        state=ClientState.ACTIVE,
        not_before=0,
        created_at=datetime.now(UTC),
        revoked_at=None,
        last_used_at=None,
        last_used_address=None,
        secrets=(),
    )
