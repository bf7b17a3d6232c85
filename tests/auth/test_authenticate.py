"""The one check of Bearer tokens, on a route that takes one."""

import time
from datetime import UTC, datetime

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.auth import manage
from billhook.auth.context import Auth
from billhook.auth.tokens import Claims, payload_of
from billhook.web.lanes import at_once
from tests.support import BASE_URL, OPERATOR, Registered, bearer, on_one_engine, register, token_for

REFUSED = {"code": "failed", "message": "invalid or expired token"}


async def test_a_token_opens_the_door_and_says_who_calls(
    http: httpx.AsyncClient, robot: Registered, headers: dict[str, str]
) -> None:
    answer = await http.get("/api/v1/me", headers=headers)
    assert answer.status_code == 200
    me = answer.json()["data"]
    assert me["client_id"] == robot.client.id
    assert me["organization_id"] == robot.client.organization_id
    assert me["scope"] == " ".join(robot.client.scopes)
    assert 3590 <= me["expires_in"] <= 3600
    assert datetime.fromisoformat(me["expires_at"]) > datetime.now(UTC)


@on_one_engine
@pytest.mark.parametrize("value", [None, "", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "token"])
async def test_a_request_without_a_bearer_token_is_asked_for_one(http: httpx.AsyncClient, value: str | None) -> None:
    answer = await http.get("/api/v1/me", headers={} if value is None else {"Authorization": value})
    assert (answer.status_code, answer.json()) == (401, REFUSED)
    assert answer.headers["www-authenticate"] == "Bearer"


@on_one_engine
@pytest.mark.parametrize("token", ["x", "a.b.c", "é", "eyJhbGciOiJub25lIn0.e30."])
async def test_a_token_that_is_none_is_refused(http: httpx.AsyncClient, token: str) -> None:
    answer = await http.get("/api/v1/me", headers={b"Authorization": f"Bearer {token}".encode()})
    assert (answer.status_code, answer.json()) == (401, REFUSED)
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'


@on_one_engine
async def test_the_scheme_may_be_written_in_any_case(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    value = headers["Authorization"].replace("Bearer", "bEARER ")
    assert (await http.get("/api/v1/me", headers={"Authorization": value})).status_code == 200


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"name": 7}', b" " * 300_000])
@pytest.mark.parametrize("path", ["/clients", "/groups", "/groups/grp_x/notifications"])
async def test_who_may_not_is_told_so_whatever_they_have_sent(
    http: httpx.AsyncClient, installation: Installation, auth: Auth, path: str, body: bytes
) -> None:
    reader = await register(installation, scopes=("clients:read",))
    await auth.registry.refresh()
    json = {"Content-Type": "application/json"}
    stranger = await http.post(f"/api/v1{path}", content=body, headers=json)
    known = await http.post(f"/api/v1{path}", content=body, headers=json | bearer(await token_for(http, reader)))
    assert (stranger.status_code, known.status_code) == (401, 403)


def expired_token(auth: Auth, client_id: str, organization_id: str) -> str:
    now = int(time.time())
    claims = Claims(client_id, organization_id, "clients:read", now - 120, now - 60, "0" * 32, 0)
    return at_once(auth.registry.sign(payload_of(claims, issuer=BASE_URL), time.time())).decode()


async def test_an_expired_token_is_refused(http: httpx.AsyncClient, robot: Registered, auth: Auth) -> None:
    token = expired_token(auth, robot.client.id, robot.client.organization_id)
    answer = await http.get("/api/v1/me", headers=bearer(token))
    assert (answer.status_code, answer.json()) == (401, REFUSED)


async def test_a_revoked_clients_tokens_stop_working(
    http: httpx.AsyncClient, robot: Registered, headers: dict[str, str], installation: Installation, auth: Auth
) -> None:
    async with installation.db.transaction() as tx:
        await manage.revoke(tx, robot.client.id, author=OPERATOR, now=datetime.now(UTC))
    await auth.registry.refresh()
    assert (await http.get("/api/v1/me", headers=headers)).status_code == 401


async def test_tokens_issued_in_the_second_of_a_revocation_are_told_apart(
    http: httpx.AsyncClient, robot: Registered, installation: Installation, auth: Auth
) -> None:
    for _ in range(3):
        before = await token_for(http, robot)
        async with installation.db.transaction() as tx:
            await manage.revoke_tokens(tx, robot.client.id, author=OPERATOR, now=datetime.now(UTC))
        await auth.registry.refresh()
        after = await token_for(http, robot)
        assert (await http.get("/api/v1/me", headers=bearer(before))).status_code == 401
        assert (await http.get("/api/v1/me", headers=bearer(after))).status_code == 200


async def test_a_missing_scope_is_forbidden_and_named(
    http: httpx.AsyncClient, installation: Installation, auth: Auth
) -> None:
    reader = await register(installation, scopes=("groups:read",))
    await auth.registry.refresh()
    answer = await http.get("/api/v1/clients", headers=bearer(await token_for(http, reader)))
    assert (answer.status_code, answer.json()["code"]) == (403, "authorization/forbidden")
    assert "clients:read" in answer.json()["message"]
    assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="clients:read"'


async def test_a_scope_that_was_taken_away_is_gone_from_older_tokens_too(
    http: httpx.AsyncClient, robot: Registered, headers: dict[str, str], installation: Installation, auth: Auth
) -> None:
    async with installation.db.transaction() as tx:
        less = {"scopes": ("groups:write", "clients:write")}
        await manage.change(tx, robot.client.id, less, author=OPERATOR, now=datetime.now(UTC))
    await auth.registry.refresh()
    assert (await http.get("/api/v1/clients", headers=headers)).status_code == 403
    me = (await http.get("/api/v1/me", headers=headers)).json()["data"]
    assert me["scope"] == "clients:write groups:write"
    back = {"scope": "clients:read clients:write"}
    assert (await http.patch(f"/api/v1/clients/{robot.client.id}", json=back, headers=headers)).status_code == 403


async def test_a_token_of_a_process_that_knows_of_a_later_revocation_counts(
    http: httpx.AsyncClient, robot: Registered, auth: Auth
) -> None:
    now = int(time.time())
    claims = Claims(robot.client.id, robot.client.organization_id, "clients:read", now, now + 60, "0" * 32, epoch=1)
    token = at_once(auth.registry.sign(payload_of(claims, issuer=BASE_URL), time.time())).decode()
    assert (await http.get("/api/v1/me", headers=bearer(token))).status_code == 200
