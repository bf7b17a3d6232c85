"""What one can do with clients. Each is one transaction with its audit entry, and the same for API, console and CLI."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from billhook.accounts.audit import Actor, note
from billhook.auth import model, store
from billhook.auth.model import Client, ClientState
from billhook.auth.secret import Digest, NewSecret, digester, new_secret
from billhook.errors import ClientConflict, ClientNotFound, Forbidden
from billhook.storage import feed
from billhook.storage.database import Transaction
from billhook.storage.ids import new_id
from billhook.storage.vault import Vault


@dataclass(frozen=True)
class Author:
    """Who manages clients, and how far that may reach. `organization_id` None: the operator, who may reach all."""

    actor: Actor
    organization_id: str | None = None
    scopes: frozenset[str] = frozenset(model.SCOPES)

    def must_hold(self, scopes: Sequence[str]) -> None:
        """Nobody may hand out, or come by, more than they hold."""
        if missing := [scope for scope in scopes if scope not in self.scopes]:
            raise Forbidden(f"the token does not hold {', '.join(missing)}", scope=" ".join(missing))


@dataclass(frozen=True)
class ClientSpec:
    name: str
    scopes: tuple[str, ...]
    description: str = ""
    lifespan: timedelta = model.DEFAULT_LIFESPAN
    networks: tuple[model.Network, ...] = ()


def secret_digest(vault: Vault) -> Digest:
    return digester(vault.derive("client secrets"))


async def create(
    tx: Transaction,
    vault: Vault,
    spec: ClientSpec,
    *,
    organization_id: str,
    author: Author,
    now: datetime,
    id: str | None = None,
) -> tuple[Client, NewSecret]:
    """`id`: chosen beforehand, so that asking twice makes one client."""
    author.must_hold(spec.scopes)
    version = await feed.advance(tx)
    client = Client(
        id=await _free_id(tx, id, organization_id),
        organization_id=organization_id,
        name=model.valid_name(spec.name),
        description=model.valid_description(spec.description),
        scopes=spec.scopes,
        lifespan=spec.lifespan,
        networks=spec.networks,
        state=ClientState.ACTIVE,
        not_before=0,
        created_at=now,
        revoked_at=None,
        last_used_at=None,
        last_used_address=None,
        secrets=(),
    )
    await store.insert_client(tx, client, version=version)
    secret = await _add_secret(tx, vault, client.id, now=now)
    await _note(tx, author, client, "client.created", now=now, scope=" ".join(spec.scopes))
    return await _get(tx, client.id, author), secret


async def get(tx: Transaction, client_id: str, *, author: Author) -> Client:
    return await _get(tx, client_id, author)


async def change(tx: Transaction, client_id: str, changes: dict[str, Any], *, author: Author, now: datetime) -> Client:
    """`changes` holds the fields of a ClientSpec that shall differ."""
    version = await feed.advance(tx)
    client = await _get_active(tx, client_id, author)
    author.must_hold([scope for scope in changes.get("scopes", ()) if scope not in client.scopes])
    changed = replace(client, **changes)
    model.valid_name(changed.name)
    model.valid_description(changed.description)
    row = store.client_row(changed)
    fields = ("name", "description", "scope", "lifespan_seconds", "networks")
    await store.change_client(tx, client_id, {field: row[field] for field in fields}, version=version)
    await _note(tx, author, client, "client.changed", now=now, fields=sorted(changes))
    return await _get(tx, client_id, author)


async def rotate(
    tx: Transaction,
    vault: Vault,
    client_id: str,
    *,
    grace: timedelta,
    author: Author,
    now: datetime,
    follows: str = "",
) -> tuple[Client, NewSecret]:
    """A new secret; the newest old one ends after `grace`, any other at once, so that at most two are ever live.

    `follows`: the id of the secret that this shall follow, so that asking twice rotates once.
    """
    version = await feed.advance(tx)
    client = await _get_active(tx, client_id, author)
    if follows and follows not in [each.id for each in client.secrets[-1:]]:
        raise ClientConflict("it has a newer secret already, so nothing was changed")
    author.must_hold(client.scopes)
    await store.change_client(tx, client_id, {}, version=version)
    live = [secret for secret in client.secrets if secret.is_live(now)]
    await store.end_secrets(tx, [secret.id for secret in live[:-1]], at=now)
    for newest in live[-1:]:
        await store.end_secrets(tx, [newest.id], at=min(now + grace, newest.ends_at or now + grace))
    added = await _add_secret(tx, vault, client_id, now=now)
    await _note(tx, author, client, "client.rotated", now=now, secret=added.id, grace_seconds=grace.total_seconds())
    return await _get(tx, client_id, author), added


async def revoke(tx: Transaction, client_id: str, *, author: Author, now: datetime) -> Client:
    """End the client with all its secrets and tokens, for good. Doing it again changes nothing."""
    version = await feed.advance(tx)
    client = await _get(tx, client_id, author)
    if client.state is ClientState.REVOKED:
        return client
    values = {"state": ClientState.REVOKED, "revoked_at": now}
    await store.change_client(tx, client_id, values, version=version)
    await store.end_secrets(tx, [secret.id for secret in client.secrets if secret.is_live(now)], at=now)
    await _note(tx, author, client, "client.revoked", now=now)
    return await _get(tx, client_id, author)


async def revoke_secret(tx: Transaction, client_id: str, secret_id: str, *, author: Author, now: datetime) -> Client:
    """End one of two live secrets now. The last one stays: who wants that gone revokes the client."""
    version = await feed.advance(tx)
    client = await _get_active(tx, client_id, author)
    live = {secret.id for secret in client.secrets if secret.is_live(now)}
    if secret_id not in live:
        raise ClientNotFound("the client has no such live secret")
    if len(live) == 1:
        raise ClientConflict("this is the client's last secret; rotate it, or revoke the client")
    await store.change_client(tx, client_id, {}, version=version)
    await store.end_secrets(tx, [secret_id], at=now)
    await _note(tx, author, client, "client.secret-revoked", now=now, secret=secret_id)
    return await _get(tx, client_id, author)


async def revoke_tokens(tx: Transaction, client_id: str, *, author: Author, now: datetime) -> Client:
    """Tokens issued before this moment stop counting. The epoch tells them apart within one second."""
    version = await feed.advance(tx)
    client = await _get_active(tx, client_id, author)
    values = {"epoch": store.clients.c.epoch + 1, "not_before": int(now.timestamp())}
    await store.change_client(tx, client_id, values, version=version)
    await _note(tx, author, client, "client.tokens-revoked", now=now)
    return await _get(tx, client_id, author)


async def _free_id(tx: Transaction, wanted: str | None, organization_id: str) -> str:
    """Another one where another organization has it: to this one it does not exist, not even as a conflict."""
    taken = await store.find_client(tx, wanted, None) if wanted else None
    if taken is not None and taken.organization_id == organization_id:
        raise ClientConflict("the client was created already")
    return wanted if wanted and taken is None else new_id("cli")


async def _get(tx: Transaction, client_id: str, author: Author) -> Client:
    client = await store.find_client(tx, client_id, author.organization_id)
    if client is None:
        raise ClientNotFound()
    return client


async def _get_active(tx: Transaction, client_id: str, author: Author) -> Client:
    client = await _get(tx, client_id, author)
    if client.state is not ClientState.ACTIVE:
        raise ClientConflict("the client is revoked")
    return client


async def _add_secret(tx: Transaction, vault: Vault, client_id: str, *, now: datetime) -> NewSecret:
    secret = new_secret()
    await store.insert_secret(tx, client_id, secret, digest=secret_digest(vault)(secret.text), now=now)
    return secret


async def _note(tx: Transaction, author: Author, client: Client, action: str, *, now: datetime, **detail: Any) -> None:
    actor = replace(author.actor, organization_id=client.organization_id)
    await note(tx, actor, action, subject=client.id, now=now, name=client.name, **detail)
