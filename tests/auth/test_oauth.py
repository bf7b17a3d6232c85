"""The OAuth door: RFC 6749, 7662, 7009 and 8414."""

from base64 import b64encode
from typing import Any

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.auth.context import Auth
from billhook.auth.throttle import FAILURES_PER_PAIR
from tests.support import BASE_URL, Registered, another_organization, bearer, on_one_engine, register, token_for

GRANT = {"grant_type": "client_credentials"}


def basic(registered: Registered) -> dict[str, str]:
    pair = f"{registered.client.id}:{registered.secret.text}".encode()
    return {"Authorization": f"Basic {b64encode(pair).decode()}"}


async def test_credentials_in_the_form_get_a_flat_token(http: httpx.AsyncClient, robot: Registered) -> None:
    answer = await http.post("/oauth2/token", data=GRANT | robot.credentials)
    assert answer.status_code == 200
    body = answer.json()
    assert body.keys() == {"access_token", "token_type", "expires_in", "scope"}
    assert (body["token_type"], body["expires_in"]) == ("Bearer", 3600)
    assert answer.headers["cache-control"] == "no-store"
    assert (await http.get("/api/v1/me", headers=bearer(body["access_token"]))).status_code == 200


async def test_credentials_in_the_header_get_the_same(http: httpx.AsyncClient, robot: Registered) -> None:
    answer = await http.post("/oauth2/token", data=GRANT, headers=basic(robot))
    assert answer.status_code == 200


async def test_a_right_secret_is_never_refused_because_of_failures(http: httpx.AsyncClient, robot: Registered) -> None:
    wrong = GRANT | {"client_id": robot.client.id, "client_secret": "wrong"}
    while (await http.post("/oauth2/token", data=wrong)).status_code != 429:
        pass
    assert (await http.post("/oauth2/token", data=GRANT, headers=basic(robot))).status_code == 200


async def test_a_token_can_be_asked_for_with_less_scope(http: httpx.AsyncClient, robot: Registered) -> None:
    wanted = GRANT | {"scope": "groups:read clients:read"}
    answer = await http.post("/oauth2/token", data=wanted, headers=basic(robot))
    assert answer.json()["scope"] == "clients:read groups:read"
    denied = await http.post("/api/v1/clients", json={}, headers=bearer(answer.json()["access_token"]))
    assert denied.status_code == 403


BAD_REQUESTS: dict[str, tuple[dict[str, str], int, str]] = {
    "no grant": ({}, 400, "invalid_request"),
    "another grant": ({"grant_type": "password"}, 400, "unsupported_grant_type"),
    "more scope": (GRANT | {"scope": "everything"}, 400, "invalid_scope"),
    "two ways to authenticate": (GRANT | {"client_id": "x", "client_secret": "y"}, 400, "invalid_request"),
}


@pytest.mark.parametrize(("form", "status", "error"), BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
@on_one_engine
async def test_a_bad_request_gets_rfc_6749s_error_and_ours(
    http: httpx.AsyncClient, robot: Registered, form: dict[str, str], status: int, error: str
) -> None:
    answer = await http.post("/oauth2/token", data=form, headers=basic(robot) | FORM)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.json()["code"] == "bad-request/invalid-parameters"
    assert answer.json()["message"] == answer.json()["error_description"]
    assert answer.json().keys() == {"error", "error_description", "code", "message"}


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "header", [None, "Basic", "Basic !!!", "Basic eA==", "Basic /w==", "Bearer abc", "Basic eDp5"], ids=str
)
@on_one_engine
async def test_bad_credentials_get_invalid_client(http: httpx.AsyncClient, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = await http.post("/oauth2/token", data=GRANT, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert (answer.json()["code"], answer.json()["message"]) == ("failed", "invalid or expired token")
    assert answer.headers["www-authenticate"].startswith("Basic")


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"grant_type=client_credentials", {"Content-Type": "application/json"}),
        (b"\xff=\xff", FORM),
        (b"a=%ff", FORM),
        (b"a=1&a=2", FORM),
        (b"x" * 9000, FORM),
        (b"&".join(b"a%d=1" % number for number in range(60)), FORM),
    ],
)
@on_one_engine
async def test_a_body_that_is_no_form_gets_400(
    http: httpx.AsyncClient, robot: Registered, content: bytes, headers: dict[str, str]
) -> None:
    answer = await http.post("/oauth2/token", content=content, headers=headers | basic(robot))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_failures_here_and_at_auth_are_counted_together(http: httpx.AsyncClient) -> None:
    wrong = {"client_id": "cli_x", "client_secret": "wrong"}
    for _ in range(FAILURES_PER_PAIR):
        assert (await http.post("/auth", json=wrong)).status_code == 401
    answer = await http.post("/oauth2/token", data=GRANT | wrong)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0


async def introspect(http: httpx.AsyncClient, token: str, asker: Registered) -> dict[str, Any]:
    answer = await http.post("/oauth2/introspect", data={"token": token}, headers=basic(asker))
    assert answer.status_code == 200
    return dict(answer.json())


async def test_introspection_tells_the_claims_of_a_live_token(http: httpx.AsyncClient, robot: Registered) -> None:
    seen = await introspect(http, await token_for(http, robot), robot)
    assert seen["active"] is True
    assert (seen["client_id"], seen["iss"], seen["token_type"]) == (robot.client.id, BASE_URL, "Bearer")
    assert seen["exp"] - seen["iat"] == 3600


async def test_introspection_tells_nothing_of_other_tokens(
    http: httpx.AsyncClient, robot: Registered, installation: Installation, auth: Auth
) -> None:
    stranger = await register(installation, organization_id=await another_organization(installation))
    await auth.registry.refresh()
    for token in ("nonsense", await token_for(http, stranger)):
        assert await introspect(http, token, robot) == {"active": False}


async def test_a_client_can_end_its_own_token_and_only_that(
    http: httpx.AsyncClient, robot: Registered, installation: Installation, auth: Auth
) -> None:
    other = await register(installation)
    await auth.registry.refresh()
    mine, mine_too, theirs = (
        await token_for(http, robot),
        await token_for(http, robot),
        await token_for(http, other),
    )
    for token in (mine, theirs, "nonsense"):
        assert (await http.post("/oauth2/revoke", data={"token": token}, headers=basic(robot))).status_code == 200
    statuses = [(await http.get("/api/v1/me", headers=bearer(token))).status_code for token in (mine, mine_too, theirs)]
    assert statuses == [401, 200, 200]
    assert await introspect(http, mine, robot) == {"active": False}


@pytest.mark.parametrize("path", ["/oauth2/introspect", "/oauth2/revoke"])
@on_one_engine
async def test_a_missing_token_is_named(http: httpx.AsyncClient, robot: Registered, path: str) -> None:
    answer = await http.post(path, data={"x": "y"}, headers=basic(robot))
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert "token" in answer.json()["message"]


@on_one_engine
async def test_the_metadata_names_routes_that_are_there(http: httpx.AsyncClient) -> None:
    document = (await http.get("/.well-known/oauth-authorization-server")).json()
    assert document["issuer"] == BASE_URL
    assert document["grant_types_supported"] == ["client_credentials"]
    assert (await http.get(document["jwks_uri"])).status_code == 200
    for name in ("token_endpoint", "introspection_endpoint", "revocation_endpoint"):
        assert (await http.post(document[name])).status_code == 400
