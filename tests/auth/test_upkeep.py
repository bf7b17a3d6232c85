"""What goes on beside the requests."""

from datetime import UTC, datetime, timedelta

import httpx
import jwt
import pytest
from sqlalchemy import func, select, text, update

from billhook.accounts.installation import Installation
from billhook.app import running_app
from billhook.auth import manage, upkeep
from billhook.auth.activity import token_requests
from billhook.auth.context import Auth
from billhook.auth.keystore import signing_keys
from billhook.auth.revoked import revoke_token, revoked_tokens
from billhook.auth.store import client_secrets
from billhook.auth.upkeep import SECRETS_KEPT, purge
from billhook.storage import feed
from tests.support import BASE_URL, OPERATOR, bearer, on_postgres, register, token_for, until

LISTENING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"


async def issued_count(installation: Installation) -> int:
    async with installation.db.reading() as tx:
        return int((await tx.execute(select(func.coalesce(func.sum(token_requests.c.count), 0)))).scalar_one())


async def test_a_clean_stop_writes_every_tally(installation: Installation) -> None:
    made = await register(installation)
    async with running_app(installation) as app:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app.asgi), base_url=BASE_URL) as http:
            for _ in range(7):
                assert (await http.post("/auth", json=made.credentials)).status_code == 201
    assert await issued_count(installation) == 7
    async with installation.db.reading() as tx:
        client = await manage.get(tx, made.client.id, author=OPERATOR)
    assert client.last_used_address == "127.0.0.1"


@on_postgres
async def test_it_listens_to_the_other_processes_until_it_stops_and_tells_them_the_last(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "POLL_SECONDS", 30.0)  # nothing is told before the stop
    made = await register(installation)

    async def listeners() -> int:
        async with installation.db.reading() as tx:
            return int((await tx.execute(text(LISTENING))).scalar_one())

    async def one_listens() -> bool:
        return await listeners() == 1

    async def nobody_listens() -> bool:
        return await listeners() == 0

    async with running_app(installation) as app:
        await until(one_listens)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app.asgi), base_url=BASE_URL) as http:
            wrong = made.credentials | {"client_secret": "wrong"}
            assert (await http.post("/auth", json=wrong)).status_code == 401
        assert any(window.untold for window in app.auth.failures.windows.values())
    assert not any(window.untold for window in app.auth.failures.windows.values())
    await until(nobody_listens)


async def test_the_first_start_makes_a_key_and_the_second_keeps_it(installation: Installation) -> None:
    async with running_app(installation) as first:
        made = [key.kid for key in first.auth.registry.keys]
    async with running_app(installation) as second:
        assert [key.kid for key in second.auth.registry.keys] == made
    assert len(made) == 1


async def test_a_running_service_rotates_its_keys_and_goes_on_publishing_the_one_before(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "ROTATION_SECONDS", 0.05)
    made = await register(installation)
    async with (
        running_app(installation) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app.asgi), base_url=BASE_URL) as http,
    ):
        old, first = await token_for(http, made), await http.get("/.well-known/jwks.json")

        async def are_published(number: int) -> bool:
            return len((await http.get("/.well-known/jwks.json")).json()["keys"]) == number

        await pass_days(installation, 29.5)
        await until(lambda: are_published(2))
        announced = await http.get("/.well-known/jwks.json")
        assert announced.headers["etag"] != first.headers["etag"]
        assert signer_of(await token_for(http, made)) == signer_of(old), "it is published before it signs"

        await pass_days(installation, 1)
        await app.auth.registry.refresh()
        new = await token_for(http, made)
        assert {signer_of(old), signer_of(new)} == {key["kid"] for key in announced.json()["keys"]}
        assert signer_of(new) != signer_of(old)
        assert await are_published(2)
        for token in (old, new):
            assert (await http.get("/api/v1/me", headers=bearer(token))).status_code == 200

        await pass_days(installation, 2)
        await until(lambda: are_published(1))
        assert (await http.get("/api/v1/me", headers=bearer(old))).status_code == 401


def signer_of(token: str) -> str:
    return str(jwt.get_unverified_header(token)["kid"])


async def pass_days(installation: Installation, days: float) -> None:
    """For the keys: each was made and begins so much earlier."""
    async with installation.db.transaction() as tx:
        await feed.advance(tx)
        for row in (await tx.execute(select(signing_keys))).all():
            earlier = {name: getattr(row, name) - timedelta(days=days) for name in ("created_at", "active_from")}
            await tx.execute(update(signing_keys).where(signing_keys.c.kid == row.kid).values(earlier))


async def test_what_is_old_is_forgotten(installation: Installation, auth: Auth) -> None:
    now = datetime.now(UTC)
    made = await register(installation)
    async with installation.db.transaction() as tx:
        await manage.revoke(tx, made.client.id, author=OPERATOR, now=now - SECRETS_KEPT - timedelta(days=1))
        await revoke_token(tx, "old", expires_at=now - timedelta(days=1), actor=OPERATOR.actor, now=datetime.now(UTC))
        await revoke_token(tx, "new", expires_at=now + timedelta(days=1), actor=OPERATOR.actor, now=datetime.now(UTC))
    await purge(auth, now=now)
    async with installation.db.reading() as tx:
        assert (await tx.execute(select(client_secrets.c.id))).all() == []
        assert (await tx.execute(select(revoked_tokens.c.jti))).scalars().all() == ["new"]
