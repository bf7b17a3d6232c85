"""What one can do with clients: each a transaction, an audit entry and a step of the change feed."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from billhook.accounts.audit import Actor, read_trail
from billhook.accounts.installation import Installation
from billhook.auth import manage, store
from billhook.auth.activity import Activity
from billhook.auth.manage import Author, ClientSpec
from billhook.auth.model import GRACES, Client, ClientState
from billhook.auth.store import client_secrets, list_clients
from billhook.errors import ClientConflict, ClientNotFound, Forbidden, InvalidParameters
from billhook.storage import feed
from billhook.storage.database import Transaction
from billhook.storage.ids import new_id
from tests.support import OPERATOR, Registered, another_organization, register

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def do(installation: Installation, work: Callable[[Transaction], Awaitable[Any]]) -> Any:
    async with installation.db.transaction() as tx:
        return await work(tx)


async def rotate(
    installation: Installation, client_id: str, grace: str, *, now: datetime, author: Author = OPERATOR
) -> Registered:
    wait, vault = GRACES[grace], installation.vault
    made = await do(installation, lambda tx: manage.rotate(tx, vault, client_id, grace=wait, author=author, now=now))
    return Registered(*made)


def live(client: Client, now: datetime) -> list[str]:
    return [secret.id for secret in client.secrets if secret.is_live(now)]


async def test_a_secret_is_stored_only_as_its_digest(installation: Installation) -> None:
    made = await register(installation)
    async with installation.db.reading() as tx:
        row = (await tx.execute(select(client_secrets))).one()
    assert made.secret.text not in repr(tuple(row))
    assert row.digest == manage.secret_digest(installation.vault)(made.secret.text)


async def test_rotating_now_ends_the_old_secret_now(installation: Installation) -> None:
    made = await register(installation)
    now = datetime.now(UTC)
    rotated = await rotate(installation, made.client.id, "now", now=now)
    assert live(rotated.client, now) == [rotated.secret.id]


async def test_rotating_with_a_grace_leaves_two_until_it_is_over(installation: Installation) -> None:
    made = await register(installation)
    now = datetime.now(UTC)
    rotated = await rotate(installation, made.client.id, "24h", now=now)
    assert live(rotated.client, now) == [made.secret.id, rotated.secret.id]
    assert live(rotated.client, now + 24 * HOUR) == [rotated.secret.id]


async def test_there_are_never_more_than_two_live_secrets(installation: Installation) -> None:
    made = await register(installation)
    now = datetime.now(UTC)
    second = await rotate(installation, made.client.id, "7d", now=now)
    third = await rotate(installation, made.client.id, "7d", now=now)
    assert live(third.client, now) == [second.secret.id, third.secret.id]


async def test_a_later_rotation_does_not_prolong_an_end_already_set(installation: Installation) -> None:
    made = await register(installation)
    now = datetime.now(UTC)
    await rotate(installation, made.client.id, "1h", now=now)
    twice = await rotate(installation, made.client.id, "7d", now=now + 2 * HOUR)
    assert [secret.ends_at for secret in twice.client.secrets] == [now + HOUR, now + 2 * HOUR + 7 * 24 * HOUR, None]


async def test_one_of_two_secrets_can_be_revoked_but_not_the_last(installation: Installation) -> None:
    made = await register(installation)
    now = datetime.now(UTC)
    rotated = await rotate(installation, made.client.id, "7d", now=now)

    async def revoke(secret_id: str) -> Client:
        async with installation.db.transaction() as tx:
            return await manage.revoke_secret(tx, made.client.id, secret_id, author=OPERATOR, now=now)

    assert live(await revoke(made.secret.id), now) == [rotated.secret.id]
    with pytest.raises(ClientConflict, match="last secret"):
        await revoke(rotated.secret.id)
    with pytest.raises(ClientNotFound, match="no such live secret"):
        await revoke("nothing")


async def test_a_revoked_client_stays_to_be_seen_and_cannot_be_changed(installation: Installation) -> None:
    made = await register(installation)
    now = datetime.now(UTC)
    client = await do(installation, lambda tx: manage.revoke(tx, made.client.id, author=OPERATOR, now=now))
    assert client.state is ClientState.REVOKED
    assert client.revoked_at == now
    assert live(client, now) == []
    with pytest.raises(ClientConflict, match="the client is revoked"):
        await rotate(installation, made.client.id, "now", now=now)
    again = await do(installation, lambda tx: manage.revoke(tx, made.client.id, author=OPERATOR, now=now + HOUR))
    assert again.revoked_at == now


async def test_only_the_given_fields_change(installation: Installation) -> None:
    made = await register(installation, name="before", description="stays")
    changed = await do(
        installation,
        lambda tx: manage.change(tx, made.client.id, {"name": "after"}, author=OPERATOR, now=NOW),
    )
    assert (changed.name, changed.description, changed.scopes) == ("after", "stays", made.client.scopes)


async def test_nobody_hands_out_what_they_do_not_hold(installation: Installation) -> None:
    made = await register(installation, scopes=("clients:read",))
    strong = await register(installation)
    owner = made.client.organization_id
    author = Author(Actor("client:x"), owner, frozenset({"clients:read", "clients:write"}))
    spec = ClientSpec(name="x", scopes=("groups:write",))
    with pytest.raises(Forbidden, match="groups:write"):
        await do(
            installation,
            lambda tx: manage.create(tx, installation.vault, spec, organization_id=owner, author=author, now=NOW),
        )
    with pytest.raises(Forbidden, match="groups:write"):
        scopes = {"scopes": ("clients:read", "groups:write")}
        await do(installation, lambda tx: manage.change(tx, made.client.id, scopes, author=author, now=NOW))
    with pytest.raises(Forbidden, match="groups:read"):
        await rotate(installation, strong.client.id, "now", now=NOW, author=author)


async def test_another_organizations_client_is_as_good_as_absent(installation: Installation) -> None:
    theirs = await register(installation, organization_id=await another_organization(installation))
    ours = await register(installation)
    author = Author(Actor("client:x"), ours.client.organization_id)
    for attempt in (manage.revoke, manage.revoke_tokens):
        for client_id in (theirs.client.id, "cli_nothing"):
            with pytest.raises(ClientNotFound):
                async with installation.db.transaction() as tx:
                    await attempt(tx, client_id, author=author, now=NOW)
    async with installation.db.reading() as tx:
        assert [client.id for client in await list_clients(tx, ours.client.organization_id)] == [ours.client.id]


async def test_every_change_is_in_the_audit_trail_with_who_what_and_when(installation: Installation) -> None:
    made = await register(installation)
    now = datetime.now(UTC)
    client_id = made.client.id
    await rotate(installation, client_id, "7d", now=now)
    async with installation.db.transaction() as tx:
        await manage.change(tx, client_id, {"name": "other"}, author=OPERATOR, now=now)
        await manage.revoke_secret(tx, client_id, made.secret.id, author=OPERATOR, now=now)
        await manage.revoke_tokens(tx, client_id, author=OPERATOR, now=now)
        await manage.revoke(tx, client_id, author=OPERATOR, now=now)
    async with installation.db.reading() as tx:
        trail = await read_trail(tx, subject=client_id)
    assert {entry.action for entry in trail} == {
        "client.created",
        "client.rotated",
        "client.changed",
        "client.secret-revoked",
        "client.tokens-revoked",
        "client.revoked",
    }
    assert {entry.actor for entry in trail} == {"cli:test"}
    assert all(entry.at == now for entry in trail if entry.action != "client.created")
    assert made.secret.text not in repr(trail)


async def test_every_change_moves_the_feed_once(installation: Installation) -> None:
    async def version() -> int:
        async with installation.db.reading() as tx:
            return await feed.current(tx)

    before = await version()
    made = await register(installation)
    await rotate(installation, made.client.id, "1h", now=datetime.now(UTC))
    assert await version() == before + 2


async def test_a_failed_change_leaves_nothing_behind(installation: Installation) -> None:
    spec = ClientSpec(name="", scopes=("clients:read",))
    with pytest.raises(InvalidParameters, match="name"):
        await do(
            installation,
            lambda tx: manage.create(tx, installation.vault, spec, organization_id="x", author=OPERATOR, now=NOW),
        )
    async with installation.db.reading() as tx:
        assert await list_clients(tx, None) == []


async def test_more_clients_than_a_statement_takes_parameters_can_be_listed(installation: Installation) -> None:
    first = await register(installation)
    row = store.client_row(first.client) | {"version": 0}
    async with installation.db.transaction() as tx:
        await tx.execute(insert(store.clients), [row | {"id": new_id("cli")} for _ in range(33_000)])
        found = await list_clients(tx, None)
    assert len(found) == 33_001
    assert [len(client.secrets) for client in found if client.id == first.client.id] == [1]


async def test_a_revocation_and_the_noting_of_uses_do_not_stop_each_other(installation: Installation) -> None:
    made = await register(installation)
    for turn in range(20):
        tallies = Activity()
        tallies.issued(made.client.id, made.secret.id, address="192.0.2.1", now=NOW.timestamp() + turn)
        rotation = rotate(installation, made.client.id, "7d", now=datetime.now(UTC))
        made, _ = await asyncio.gather(rotation, tallies.flush(installation.db))
