"""What is held in memory, and how it follows the database."""

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, update

from billhook.accounts.installation import Installation, open_installation
from billhook.auth import manage, registry
from billhook.auth.context import Auth
from billhook.auth.keystore import keep_rotating
from billhook.auth.registry import Registry
from billhook.auth.revoked import revoke_token
from billhook.auth.store import client_secrets, clients
from billhook.errors import Unavailable
from billhook.settings import Settings
from billhook.storage import feed
from billhook.web.lanes import at_once
from tests.support import OPERATOR, register, until


@pytest.fixture
async def known(installation: Installation) -> Registry:
    await keep_rotating(installation.db, installation.vault, [], now=datetime.now(UTC))
    made = Registry(installation.db, installation.vault)
    await made.refresh()
    return made


@pytest.fixture
async def another_process(settings: Settings) -> AsyncIterator[Installation]:
    """The same installation, opened a second time."""
    async with open_installation(settings) as opened:
        yield opened


async def test_everything_committed_before_a_refresh_is_known_after_it(
    known: Registry, another_process: Installation
) -> None:
    made = await register(another_process)
    await known.refresh()
    assert known.clients[made.client.id].is_active
    assert known.secrets[made.secret.id].client_id == made.client.id
    async with another_process.db.transaction() as tx:
        await manage.revoke(tx, made.client.id, author=OPERATOR, now=datetime.now(UTC))
    await known.refresh()
    assert not known.clients[made.client.id].is_active


async def test_more_clients_than_fit_a_page_are_all_known(
    known: Registry, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "PAGE", 3)
    made = [await register(installation) for _ in range(10)]
    await known.refresh()
    assert known.clients.keys() == {each.client.id for each in made}
    assert known.secrets.keys() == {each.secret.id for each in made}


async def test_a_revoked_token_is_known(known: Registry, another_process: Installation) -> None:
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    async with another_process.db.transaction() as tx:
        await revoke_token(tx, "token-id", expires_at=expires_at, actor=OPERATOR.actor, now=datetime.now(UTC))
        await revoke_token(tx, "token-id", expires_at=expires_at, actor=OPERATOR.actor, now=datetime.now(UTC))
    await known.refresh()
    assert known.revoked == {"token-id": expires_at.timestamp()}


async def test_what_the_database_forgets_is_forgotten_here(known: Registry, installation: Installation) -> None:
    now = datetime.now(UTC)
    made = await register(installation)
    async with installation.db.transaction() as tx:
        await manage.revoke(tx, made.client.id, author=OPERATOR, now=now - timedelta(days=31))
        await revoke_token(
            tx, "token-id", expires_at=now - timedelta(seconds=1), actor=OPERATOR.actor, now=datetime.now(UTC)
        )
    await known.refresh()
    known.forget_expired(now, kept=timedelta(days=30))
    assert known.secrets == {}
    assert known.revoked == {}


async def test_the_change_feed_is_followed(auth: Auth, another_process: Installation) -> None:
    made = await register(another_process)

    async def is_known() -> bool:
        return made.client.id in auth.registry.clients

    await until(is_known)


async def test_a_registry_that_has_not_seen_the_database_for_long_gives_no_answers(
    known: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.must_be_fresh()
    later = time.monotonic() + registry.PATIENCE_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with pytest.raises(Unavailable):
        known.must_be_fresh()


async def test_without_a_key_nothing_is_signed(installation: Installation) -> None:
    with pytest.raises(Unavailable):
        at_once(Registry(installation.db, installation.vault).sign(b"{}", time.time()))


async def test_the_next_key_signs_from_its_moment_on(known: Registry, installation: Installation) -> None:
    now = datetime.now(UTC)
    later = now + timedelta(days=31)
    await keep_rotating(installation.db, installation.vault, list(known.keys), now=now + timedelta(days=29, hours=1))
    await known.refresh()
    first, second = (at_once(known.sign(b"{}", moment.timestamp())).split(b".")[0] for moment in (now, later))
    assert first != second


async def test_an_older_database_that_was_put_back_is_read_anew(known: Registry, installation: Installation) -> None:
    made = await register(installation)
    await known.refresh()
    async with installation.db.transaction() as tx:
        await tx.execute(delete(client_secrets))
        await tx.execute(delete(clients))
        await tx.execute(update(feed.feed).values(version=0))
    await known.refresh()
    assert made.client.id not in known.clients
    assert known.secrets == {}
