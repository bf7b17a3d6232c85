"""What goes on beside the requests."""

from datetime import UTC, datetime, timedelta

import httpx
from sqlalchemy import func, select

from billhook.accounts.installation import Installation
from billhook.app import running_app
from billhook.auth import manage
from billhook.auth.activity import token_requests
from billhook.auth.context import Auth
from billhook.auth.revoked import revoke_token, revoked_tokens
from billhook.auth.store import client_secrets
from billhook.auth.upkeep import SECRETS_KEPT, purge
from tests.support import BASE_URL, OPERATOR, register


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


async def test_the_first_start_makes_a_key_and_the_second_keeps_it(installation: Installation) -> None:
    async with running_app(installation) as first:
        made = [key.kid for key in first.auth.registry.keys]
    async with running_app(installation) as second:
        assert [key.kid for key in second.auth.registry.keys] == made
    assert len(made) == 1


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
