"""/api/v1/clients: the whole life of a client through the API."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from billhook.accounts.audit import read_trail
from billhook.accounts.installation import Installation
from billhook.auth.context import Auth
from tests.support import Registered, bearer, on_one_engine, register, token_for

Headers = dict[str, str]


async def create(http: httpx.AsyncClient, headers: Headers, **fields: Any) -> dict[str, Any]:
    body = {"name": "made", "scope": "groups:read clients:read"} | fields
    answer = await http.post("/api/v1/clients", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["data"])


def credentials(client: dict[str, Any]) -> dict[str, str]:
    return {name: client[name] for name in ("client_id", "client_secret")}


async def can_sign_in(http: httpx.AsyncClient, client: dict[str, Any]) -> bool:
    return (await http.post("/auth", json=credentials(client))).status_code == 201


async def test_a_new_client_works_at_once_and_its_secret_is_shown_once(
    http: httpx.AsyncClient, headers: Headers
) -> None:
    made = await create(http, headers, description="nightly", lifespan="30m", networks=["127.0.0.0/8"])
    assert made["scope"] == "clients:read groups:read"
    assert (made["lifespan"], made["networks"], made["state"]) == ("30m", ["127.0.0.0/8"], "active")
    assert await can_sign_in(http, made)
    seen = (await http.get(f"/api/v1/clients/{made['client_id']}", headers=headers)).json()["data"]
    assert seen == {name: value for name, value in made.items() if name != "client_secret"}
    assert made["client_secret"] not in (await http.get("/api/v1/clients", headers=headers)).text


@pytest.mark.parametrize("scope", [["groups:read"], "groups:read"])
@pytest.mark.parametrize("field", ["scope", "scopes"])
@on_one_engine
async def test_scopes_may_be_a_list_or_a_text(
    http: httpx.AsyncClient, headers: Headers, field: str, scope: Any
) -> None:
    answer = await http.post("/api/v1/clients", json={"name": "x", field: scope}, headers=headers)
    assert answer.json()["data"]["scope"] == "groups:read"


BAD_CLIENTS: list[tuple[dict[str, Any], str]] = [
    ({"scope": "groups:read"}, "name"),
    ({"name": "x"}, "scope"),
    ({"name": "", "scope": "groups:read"}, "name"),
    ({"name": "   ", "scope": "groups:read"}, "name"),
    ({"name": "x" * 101, "scope": "groups:read"}, "name"),
    ({"name": 7, "scope": "groups:read"}, "name"),
    ({"name": "a\x00", "scope": "groups:read"}, "name"),
    ({"name": "x", "scope": "fly"}, "scope"),
    ({"name": "x", "scope": []}, "scope"),
    ({"name": "x", "scope": 1}, "scope"),
    ({"name": "x", "scope": "groups:read", "lifespan": "2d"}, "lifespan"),
    ({"name": "x", "scope": "groups:read", "lifespan": 61}, "lifespan"),
    ({"name": "x", "scope": "groups:read", "lifespan": True}, "lifespan"),
    ({"name": "x", "scope": "groups:read", "networks": ["10.0.0.1/8"]}, "networks"),
    ({"name": "x", "scope": "groups:read", "networks": "10.0.0.0/8"}, "networks"),
    ({"name": "x", "scope": "groups:read", "colour": "red"}, "colour"),
]


@pytest.mark.parametrize(("body", "field"), BAD_CLIENTS)
@on_one_engine
async def test_a_bad_field_is_named(http: httpx.AsyncClient, headers: Headers, body: Any, field: str) -> None:
    answer = await http.post("/api/v1/clients", json=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request/invalid-parameters")
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert answer.json()["message"].startswith(f"{field}: ")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'"x"', b'{"name": "\\ud800", "scope": "groups:read"}'])
@on_one_engine
async def test_a_body_that_is_no_object_gets_400(http: httpx.AsyncClient, headers: Headers, content: bytes) -> None:
    sent = headers | {"Content-Type": "application/json"}
    answer = await http.post("/api/v1/clients", content=content, headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request/invalid-parameters")


async def test_a_client_can_be_changed_field_by_field(http: httpx.AsyncClient, headers: Headers) -> None:
    made = await create(http, headers, description="before")
    path = f"/api/v1/clients/{made['client_id']}"
    changed = await http.patch(path, json={"name": "after", "lifespan": 7200}, headers=headers)
    assert changed.status_code == 200
    seen = changed.json()["data"]
    assert (seen["name"], seen["lifespan"], seen["description"]) == ("after", "2h", "before")
    token = (await http.post("/auth", json=credentials(made))).json()["data"]
    assert token["expires_in"] == 7200


async def test_a_rotation_with_a_grace_leaves_both_secrets_working(http: httpx.AsyncClient, headers: Headers) -> None:
    made = await create(http, headers)
    path = f"/api/v1/clients/{made['client_id']}/rotate"
    rotated = (await http.post(path, json={"grace": "24h"}, headers=headers)).json()["data"]
    assert await can_sign_in(http, made)
    assert await can_sign_in(http, rotated)
    old, new = rotated["secrets"]
    assert new["ends_at"] is None
    assert datetime.fromisoformat(old["ends_at"]) > datetime.now(UTC) + timedelta(hours=23)


async def test_a_rotation_without_a_grace_ends_the_old_secret_with_the_next_request(
    http: httpx.AsyncClient, headers: Headers
) -> None:
    made = await create(http, headers)
    rotated = (await http.post(f"/api/v1/clients/{made['client_id']}/rotate", headers=headers)).json()["data"]
    assert not await can_sign_in(http, made)
    assert await can_sign_in(http, rotated)


async def test_one_of_two_secrets_can_be_ended(http: httpx.AsyncClient, headers: Headers) -> None:
    made = await create(http, headers)
    path = f"/api/v1/clients/{made['client_id']}"
    await http.post(f"{path}/rotate", json={"grace": "7d"}, headers=headers)
    secret_id = made["secrets"][0]["id"]
    assert (await http.delete(f"{path}/secrets/{secret_id}", headers=headers)).status_code == 200
    assert not await can_sign_in(http, made)


async def test_a_revoked_client_stops_with_the_next_request_and_stays_listed(
    http: httpx.AsyncClient, headers: Headers
) -> None:
    made = await create(http, headers)
    token = (await http.post("/auth", json=credentials(made))).json()["data"]["access_token"]
    path = f"/api/v1/clients/{made['client_id']}"
    assert (await http.delete(path, headers=headers)).status_code == 200
    assert not await can_sign_in(http, made)
    assert (await http.get("/api/v1/me", headers=bearer(token))).status_code == 401
    assert (await http.get(path, headers=headers)).json()["data"]["state"] == "revoked"
    again = await http.post(f"{path}/rotate", headers=headers)
    assert (again.status_code, again.json()["code"]) == (409, "client/conflict")


async def test_all_tokens_so_far_can_be_ended(http: httpx.AsyncClient, headers: Headers) -> None:
    made = await create(http, headers)
    before = (await http.post("/auth", json=credentials(made))).json()["data"]["access_token"]
    answer = await http.post(f"/api/v1/clients/{made['client_id']}/revoke-tokens", headers=headers)
    assert answer.json()["data"]["not_before"] > 0
    after = (await http.post("/auth", json=credentials(made))).json()["data"]
    assert after["not-before-policy"] == answer.json()["data"]["not_before"]
    assert (await http.get("/api/v1/me", headers=bearer(before))).status_code == 401
    assert (await http.get("/api/v1/me", headers=bearer(after["access_token"]))).status_code == 200


async def test_lists_go_on_where_the_page_before_ended(http: httpx.AsyncClient, headers: Headers) -> None:
    made = [(await create(http, headers))["client_id"] for _ in range(4)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await http.get("/api/v1/clients", params=query, headers=headers)).json()
        seen += [client["client_id"] for client in page["data"]]
        if page["meta"]["next_cursor"] is None:
            break
        query["cursor"] = page["meta"]["next_cursor"]
    assert len(seen) == len(set(seen)) == 5
    assert set(made) < set(seen)


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x"])
@on_one_engine
async def test_a_limit_out_of_bounds_is_named(http: httpx.AsyncClient, headers: Headers, query: str) -> None:
    answer = await http.get(f"/api/v1/clients?{query}", headers=headers)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "limit"


async def test_a_token_cannot_make_a_client_stronger_than_itself(
    http: httpx.AsyncClient, headers: Headers, robot: Registered, installation: Installation, auth: Auth
) -> None:
    weak = await register(installation, scopes=("clients:read", "clients:write"))
    await auth.registry.refresh()
    weak_headers = bearer(await token_for(http, weak))
    attempts = [
        await http.post("/api/v1/clients", json={"name": "x", "scope": "groups:write"}, headers=weak_headers),
        await http.patch(f"/api/v1/clients/{weak.client.id}", json={"scope": "groups:write"}, headers=weak_headers),
        await http.post(f"/api/v1/clients/{robot.client.id}/rotate", headers=weak_headers),
    ]
    assert [(a.status_code, a.json()["code"]) for a in attempts] == [(403, "authorization/forbidden")] * 3


async def test_the_audit_trail_names_the_client_that_called(
    http: httpx.AsyncClient, headers: Headers, robot: Registered, installation: Installation
) -> None:
    made = await create(http, headers)
    async with installation.db.reading() as tx:
        (entry,) = await read_trail(tx, subject=made["client_id"])
    assert (entry.actor, entry.action) == (f"client:{robot.client.id}", "client.created")


@pytest.mark.parametrize("client_id", ["%00", "cli_%00", "x", "%F0%9F%94%91", "a" * 5000, "cli_" + "0" * 26])
async def test_an_id_that_cannot_be_one_is_absent(http: httpx.AsyncClient, headers: Headers, client_id: str) -> None:
    path = f"/api/v1/clients/{client_id}"
    answers = [
        await http.get(path, headers=headers),
        await http.delete(path, headers=headers),
        await http.post(f"{path}/rotate", headers=headers),
        await http.delete(f"{path}/secrets/%00", headers=headers),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(404, "client/not-found")] * 4


@pytest.mark.parametrize("cursor", ["%00", "x", "%F0%9F%94%91", "grp_" + "0" * 26])
async def test_a_cursor_that_cannot_be_one_is_named(http: httpx.AsyncClient, headers: Headers, cursor: str) -> None:
    answer = await http.get(f"/api/v1/clients?cursor={cursor}", headers=headers)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "cursor"
