"""POST /auth, field for field and status for status, and the published keys."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import httpx
import jwt
import pytest
from sqlalchemy import event

from billhook.accounts.installation import Installation
from billhook.auth import manage
from billhook.auth.context import Auth
from billhook.auth.throttle import FAILURES_PER_ADDRESS, FAILURES_PER_PAIR
from tests.support import BASE_URL, OPERATOR, Registered, on_one_engine, register, token_for

JSON = {"Content-Type": "application/json"}
INVALID = "bad-request/invalid-parameters"


async def test_right_credentials_get_exactly_the_documented_answer(http: httpx.AsyncClient, robot: Registered) -> None:
    answer = await http.post("/auth", json=robot.credentials)
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert body == {
        "code": "success",
        "data": {
            "access_token": body["data"]["access_token"],
            "expires_in": 3600,
            "refresh_expires_in": 0,
            "token_type": "Bearer",
            "not-before-policy": 0,
            "session_state": "",
            "scope": " ".join(robot.client.scopes),
        },
    }


async def test_the_token_is_an_rfc_9068_jwt(http: httpx.AsyncClient, robot: Registered) -> None:
    token = await token_for(http, robot)
    keys = (await http.get("/.well-known/jwks.json")).json()
    key = jwt.PyJWKSet.from_dict(keys)[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(token, key, algorithms=["ES256"], audience=BASE_URL, issuer=BASE_URL)
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "typ": "at+jwt", "kid": key.key_id}
    assert claims["sub"] == claims["client_id"] == robot.client.id
    assert claims["org"] == robot.client.organization_id
    assert claims["scope"] == " ".join(robot.client.scopes)
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["nbf"] == claims["iat"]
    assert len(claims["jti"]) == 32


@on_one_engine
async def test_other_members_of_the_body_are_ignored(http: httpx.AsyncClient, robot: Registered) -> None:
    answer = await http.post("/auth", json=robot.credentials | {"grant_type": "whatever", "more": [1]})
    assert answer.status_code == 201


@on_one_engine
@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"]
)
async def test_a_content_type_may_have_parameters(
    http: httpx.AsyncClient, robot: Registered, content_type: str
) -> None:
    answer = await http.post("/auth", json=robot.credentials, headers={"Content-Type": content_type})
    assert answer.status_code == 201


BAD_BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "JSON"),
    "not JSON": (b"client_id=x", "JSON"),
    "broken UTF-8": (b'{"client_id": "\xff", "client_secret": "x"}', "JSON"),
    "a raw NUL": (b'{"client_id": "a\x00", "client_secret": "x"}', "JSON"),
    "an escaped NUL": (b'{"client_id": "a\\u0000", "client_secret": "x"}', "client_id"),
    "a lone surrogate": (b'{"client_id": "\\ud800", "client_secret": "x"}', "JSON"),
    "bottomless nesting": (b"[" * 4000, "JSON"),
    "a nested member": (b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}", "JSON"),
    "not a number": (b'{"client_id": NaN, "client_secret": "x"}', "JSON"),
    "an array": (b"[]", "object"),
    "a text": (b'"x"', "object"),
    "null": (b"null", "object"),
    "no client_id": (b'{"client_secret": "x"}', "client_id"),
    "no client_secret": (b'{"client_id": "x"}', "client_secret"),
    "an empty client_id": (b'{"client_id": "", "client_secret": "x"}', "client_id"),
    "an empty client_secret": (b'{"client_id": "x", "client_secret": ""}', "client_secret"),
    "a number for client_id": (b'{"client_id": 1, "client_secret": "x"}', "client_id"),
    "an object for client_secret": (b'{"client_id": "x", "client_secret": {}}', "client_secret"),
    "null for client_id": (b'{"client_id": null, "client_secret": "x"}', "client_id"),
    "true for client_id": (b'{"client_id": true, "client_secret": "x"}', "client_id"),
    "too many bytes": (b'{"client_id": "x", "client_secret": "' + b"x" * 8192 + b'"}', "8192"),
}


@on_one_engine
@pytest.mark.parametrize(("body", "named"), BAD_BODIES.values(), ids=BAD_BODIES.keys())
async def test_a_bad_body_gets_400_that_names_what_is_wrong(http: httpx.AsyncClient, body: bytes, named: str) -> None:
    answer = await http.post("/auth", content=body, headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["code"] == INVALID
    assert named in answer.json()["message"]
    assert answer.json().keys() == {"code", "message"}
    assert answer.headers["cache-control"] == "no-store"


@on_one_engine
@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
async def test_another_content_type_gets_400(http: httpx.AsyncClient, robot: Registered, content_type: str) -> None:
    answer = await http.post("/auth", json=robot.credentials, headers={"Content-Type": content_type})
    assert (answer.status_code, answer.json()["code"]) == (400, INVALID)
    assert "Content-Type" in answer.json()["message"]


@on_one_engine
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
async def test_another_method_gets_405(http: httpx.AsyncClient, method: str) -> None:
    answer = await http.request(method, "/auth")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    if method != "HEAD":
        assert answer.json()["code"] == "route/method-not-allowed"


@on_one_engine
async def test_a_trailing_slash_is_another_route(http: httpx.AsyncClient, robot: Registered) -> None:
    answer = await http.post("/auth/", json=robot.credentials)
    assert (answer.status_code, answer.json()["code"]) == (404, "route/not-found")


async def refused_ways(installation: Installation, auth: Auth) -> dict[str, dict[str, str]]:
    """Credentials that must be refused, by what is wrong with them."""
    now = datetime.now(UTC)
    right, other = await register(installation), await register(installation)
    revoked, rotated = await register(installation), await register(installation)
    elsewhere = await register(installation, networks=(ip_network("192.0.2.0/24"),))
    async with installation.db.transaction() as tx:
        await manage.revoke(tx, revoked.client.id, author=OPERATOR, now=now)
        await manage.rotate(tx, installation.vault, rotated.client.id, grace=timedelta(0), author=OPERATOR, now=now)
    await auth.registry.refresh()
    return {
        "unknown client": right.credentials | {"client_id": "cli_nobody"},
        "wrong secret": right.credentials | {"client_secret": "wrong"},
        "a changed last character": right.credentials | {"client_secret": right.secret.text[:-1] + "_"},
        "a changed random part": right.credentials | {"client_secret": right.secret.text[:15] + "0" * 49},
        "another client's secret": right.credentials | {"client_secret": other.secret.text},
        "a secret beyond ASCII": right.credentials | {"client_secret": "bhs_ключ🔑"},
        "revoked client": revoked.credentials,
        "ended secret": rotated.credentials,
        "address not allowed": elsewhere.credentials,
    }


async def test_all_refusals_look_alike(http: httpx.AsyncClient, installation: Installation, auth: Auth) -> None:
    seen: dict[str, Any] = {}
    for why, credentials in (await refused_ways(installation, auth)).items():
        answer = await http.post("/auth", json=credentials)
        headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
        seen[why] = (answer.status_code, headers, answer.content)
    assert len(set(map(repr, seen.values()))) == 1, seen
    status, headers, content = seen["wrong secret"]
    assert status == 401
    assert content == b'{"code":"failed","message":"invalid or expired token"}'
    assert headers["www-authenticate"] == "Bearer"


async def test_a_client_may_come_from_its_networks(
    http: httpx.AsyncClient, installation: Installation, auth: Auth
) -> None:
    near = await register(installation, networks=(ip_network("127.0.0.0/8"),))
    await auth.registry.refresh()
    assert (await http.post("/auth", json=near.credentials)).status_code == 201


async def fail(http: httpx.AsyncClient, client_id: str) -> httpx.Response:
    return await http.post("/auth", json={"client_id": client_id, "client_secret": "wrong"})


async def test_too_many_failures_of_one_client_id_get_429(http: httpx.AsyncClient) -> None:
    statuses = [(await fail(http, "cli_x")).status_code for _ in range(FAILURES_PER_PAIR + 1)]
    assert statuses == [401] * FAILURES_PER_PAIR + [429]
    answer = await fail(http, "cli_x")
    assert answer.json()["code"] == "rate-limit/exceeded"
    assert 0 < int(answer.headers["retry-after"]) <= 300
    assert (await fail(http, "cli_y")).status_code == 401


async def test_too_many_failures_of_one_address_get_429(http: httpx.AsyncClient) -> None:
    statuses = [(await fail(http, f"cli_{number}")).status_code for number in range(FAILURES_PER_ADDRESS + 1)]
    assert statuses == [401] * FAILURES_PER_ADDRESS + [429]


async def test_a_right_secret_is_never_refused_because_of_failures(http: httpx.AsyncClient, robot: Registered) -> None:
    while (await fail(http, robot.client.id)).status_code != 429:
        pass
    for number in range(FAILURES_PER_ADDRESS):
        await fail(http, f"cli_{number}")
    assert (await http.post("/auth", json=robot.credentials)).status_code == 201


async def test_a_rotated_secret_is_good_until_its_grace_is_over(
    http: httpx.AsyncClient, installation: Installation, auth: Auth
) -> None:
    now, hour = datetime.now(UTC), timedelta(hours=1)
    for moment, status in ((now - hour / 2, 201), (now - hour * 1.5, 401)):
        made = await register(installation)
        async with installation.db.transaction() as tx:
            await manage.rotate(tx, installation.vault, made.client.id, grace=hour, author=OPERATOR, now=moment)
        await auth.registry.refresh()
        assert (await http.post("/auth", json=made.credentials)).status_code == status


async def test_issuing_touches_no_database(http: httpx.AsyncClient, robot: Registered, auth: Auth) -> None:
    await auth.registry.refresh()
    statements: list[str] = []
    for engine in {auth.db.writer, auth.db.reader}:
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    issued = [await http.post("/auth", json=robot.credentials) for _ in range(20)]
    refused = [await fail(http, robot.client.id) for _ in range(5)]
    assert {answer.status_code for answer in issued} == {201}
    assert {answer.status_code for answer in refused} == {401}
    # The change feed may be read meanwhile, by its own task and not by a request.
    assert [statement for statement in statements if "feed" not in statement] == []


async def test_the_not_before_moment_is_reported(
    http: httpx.AsyncClient, robot: Registered, installation: Installation, auth: Auth
) -> None:
    moment = datetime.now(UTC)
    async with installation.db.transaction() as tx:
        await manage.revoke_tokens(tx, robot.client.id, author=OPERATOR, now=moment)
    await auth.registry.refresh()
    answer = await http.post("/auth", json=robot.credentials)
    assert answer.json()["data"]["not-before-policy"] == int(moment.timestamp())


async def test_the_lifespan_is_the_clients(http: httpx.AsyncClient, installation: Installation, auth: Auth) -> None:
    brief = await register(installation, lifespan=timedelta(minutes=5))
    await auth.registry.refresh()
    answer = await http.post("/auth", json=brief.credentials)
    assert answer.json()["data"]["expires_in"] == 300


async def test_the_published_keys_may_be_kept_for_five_minutes(http: httpx.AsyncClient, auth: Auth) -> None:
    answer = await http.get("/.well-known/jwks.json")
    assert answer.headers["cache-control"] == "public, max-age=300"
    (key,) = answer.json()["keys"]
    assert key.keys() == {"kty", "crv", "x", "y", "kid", "use", "alg"}
    assert (key["kty"], key["crv"], key["use"], key["alg"]) == ("EC", "P-256", "sig", "ES256")
    assert key["kid"] == auth.registry.keys[0].kid


async def test_published_keys_that_have_not_changed_are_not_sent_again(http: httpx.AsyncClient) -> None:
    first = await http.get("/.well-known/jwks.json")
    again = await http.get("/.well-known/jwks.json", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
