"""SQL of clients and their secrets."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Row,
    Select,
    Table,
    Text,
    delete,
    insert,
    or_,
    select,
    update,
)

from billhook.auth.model import Client, ClientState, Secret
from billhook.auth.secret import NewSecret
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id
from billhook.storage.types import Moment, metadata

FEW = 200  # are named one by one; more would be too many parameters, and are found by the query again

clients = Table(
    "clients",
    metadata,
    Column("id", Text, primary_key=True),
    Column("organization_id", Text, ForeignKey("organizations.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("lifespan_seconds", Integer, nullable=False),
    Column("networks", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("revoked_at", Moment),
    Column("last_used_at", Moment),
    Column("last_used_address", Text),
    Column("version", BigInteger, nullable=False, index=True),
    Index("ix_clients_organization_id_id", "organization_id", "id"),
)

client_secrets = Table(
    "client_secrets",
    metadata,
    Column("id", Text, primary_key=True),
    Column("client_id", Text, ForeignKey("clients.id"), nullable=False, index=True),
    Column("digest", LargeBinary, nullable=False),
    Column("hint", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("ends_at", Moment, index=True),
    Column("last_used_at", Moment),
    Column("last_used_address", Text),
)


async def insert_client(tx: Transaction, client: Client, *, version: int) -> None:
    await tx.execute(insert(clients).values(**client_row(client), version=version))


async def insert_secret(tx: Transaction, client_id: str, secret: NewSecret, *, digest: bytes, now: datetime) -> None:
    await tx.execute(
        insert(client_secrets).values(
            id=secret.id, client_id=client_id, digest=digest, hint=secret.hint, created_at=now
        )
    )


async def find_client(tx: Transaction, client_id: str, organization_id: str | None) -> Client | None:
    """None as well when it belongs to another organization. The operator's command line passes no organization."""
    if not is_id(client_id):
        return None
    query = select(clients).where(clients.c.id == client_id)
    if organization_id is not None:
        query = query.where(clients.c.organization_id == organization_id)
    found = await _with_secrets(tx, query)
    return found[0] if found else None


async def list_clients(
    tx: Transaction,
    organization_id: str | None,
    *,
    after: str | None = None,
    limit: int | None = None,
    search: str = "",
    down_to: str | None = None,
) -> list[Client]:
    """The newest first; `after` is the id of the last one already seen, `search` a part of the name or of the id.

    `down_to`: the id of the last one to look at.
    """
    query = select(clients).order_by(clients.c.id.desc()).limit(limit)
    if organization_id is not None:
        query = query.where(clients.c.organization_id == organization_id)
    if after is not None:
        query = query.where(clients.c.id < after)
    if down_to is not None:
        query = query.where(clients.c.id >= down_to)
    if search:
        query = query.where(_matches(search))
    return await _with_secrets(tx, query)


async def last_of(tx: Transaction, organization_id: str, count: int, *, after: str | None = None) -> str | None:
    """The id of the last of so many, the newest first, if there are more: no search looks at all there are."""
    query = select(clients.c.id).where(clients.c.organization_id == organization_id).order_by(clients.c.id.desc())
    if after is not None:
        query = query.where(clients.c.id < after)
    found = (await tx.execute(query.offset(count - 1).limit(2))).scalars().all()
    return found[0] if len(found) == 2 else None


def _matches(search: str) -> ColumnElement[bool]:
    """Whatever its case. A whole id is looked up, where all else is looked for."""
    in_id = search.lower()
    if is_id(in_id):
        return clients.c.id == in_id
    return or_(clients.c.name.icontains(search, autoescape=True), clients.c.id.contains(in_id, autoescape=True))


async def change_client(tx: Transaction, client_id: str, values: Mapping[str, Any], *, version: int) -> None:
    await tx.execute(update(clients).where(clients.c.id == client_id).values(**values, version=version))


async def end_secrets(tx: Transaction, ids: Iterable[str], *, at: datetime) -> None:
    await tx.execute(update(client_secrets).where(client_secrets.c.id.in_(list(ids))).values(ends_at=at))


async def purge_secrets(tx: Transaction, *, ended_before: datetime, limit: int) -> int:
    """Forget secrets that ended long ago. At most `limit` at a time."""
    old = select(client_secrets.c.id).where(client_secrets.c.ends_at < ended_before).limit(limit)
    return (await tx.execute(delete(client_secrets).where(client_secrets.c.id.in_(old)))).rowcount


async def secrets_about_to_end(tx: Transaction, *, now: datetime, within: timedelta, limit: int) -> list[Row[Any]]:
    """Secrets that end soon and were used as long ago as that at most: whoever has them will be locked out."""
    ends_soon = (client_secrets.c.ends_at > now, client_secrets.c.ends_at <= now + within)
    query: Select[Any] = (
        select(client_secrets.c.client_id, clients.c.name, client_secrets.c.ends_at)
        .join(clients, clients.c.id == client_secrets.c.client_id)
        .where(*ends_soon, client_secrets.c.last_used_at > now - within, clients.c.state == ClientState.ACTIVE)
    )
    return list((await tx.execute(query.order_by(client_secrets.c.ends_at).limit(limit))).all())


def client_row(client: Client) -> dict[str, Any]:
    return {
        "id": client.id,
        "organization_id": client.organization_id,
        "name": client.name,
        "description": client.description,
        "scope": " ".join(client.scopes),
        "lifespan_seconds": int(client.lifespan.total_seconds()),
        "networks": ",".join(map(str, client.networks)),
        "state": client.state,
        "epoch": 0,
        "not_before": client.not_before,
        "created_at": client.created_at,
    }


async def _with_secrets(tx: Transaction, query: Select[Any]) -> list[Client]:
    rows = (await tx.execute(query)).all()
    secrets: dict[str, list[Secret]] = {row.id: [] for row in rows}
    theirs = client_secrets.c.client_id.in_(secrets if len(rows) <= FEW else query.with_only_columns(clients.c.id))
    for row in await tx.execute(select(client_secrets).where(theirs).order_by(client_secrets.c.created_at)):
        if row.client_id in secrets:
            secrets[row.client_id].append(_secret(row))
    return [_client(row, secrets[row.id]) for row in rows]


def _client(row: Row[Any], secrets: Iterable[Secret]) -> Client:
    return Client(
        id=row.id,
        organization_id=row.organization_id,
        name=row.name,
        description=row.description,
        scopes=tuple(row.scope.split()),
        lifespan=timedelta(seconds=row.lifespan_seconds),
        networks=tuple(ip_network(text) for text in row.networks.split(",") if text),
        state=ClientState(row.state),
        not_before=row.not_before,
        created_at=row.created_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
        last_used_address=row.last_used_address,
        secrets=tuple(secrets),
    )


def _secret(row: Row[Any]) -> Secret:
    return Secret(row.id, row.hint, row.created_at, row.ends_at, row.last_used_at, row.last_used_address)
