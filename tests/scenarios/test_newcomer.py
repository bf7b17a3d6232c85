"""A newcomer starts the service, registers a client, and any JWT library can check the token it gets."""

from typing import Any

import jwt
import pytest

from tests.scenarios.processes import Billhook, Server

SCOPE = "clients:read notifications:send"
REGISTERED_CLAIMS = {"iss", "aud", "sub", "client_id", "iat", "exp", "jti", "scope"}  # all that RFC 9068 names


@pytest.fixture(scope="module")
def client(shared_billhook: Billhook, shared_server: Server) -> dict[str, Any]:
    """Registered while the server is up."""
    return shared_billhook.create_client(scope=SCOPE)


@pytest.fixture(scope="module")
def token(shared_server: Server, client: dict[str, Any]) -> str:
    return shared_server.token(client)


def test_client_create_prints_what_the_newcomer_needs(client: dict[str, Any]) -> None:
    assert client["client_id"].startswith("cli_")
    assert client["client_secret"].startswith("bhs_")
    assert client["scope"] == SCOPE


def test_a_library_that_did_not_sign_it_verifies_the_token(
    shared_server: Server, client: dict[str, Any], token: str
) -> None:
    base_url = f"http://127.0.0.1:{shared_server.port}"
    keys = jwt.PyJWKClient(f"{base_url}/.well-known/jwks.json")
    claims = jwt.decode(
        token,
        keys.get_signing_key_from_jwt(token),
        algorithms=["ES256"],
        issuer=base_url,
        audience=base_url,
        options={"require": sorted(REGISTERED_CLAIMS)},
    )
    assert claims["sub"] == claims["client_id"] == client["client_id"]
    assert claims["org"] == client["organization_id"]
    assert claims["scope"] == SCOPE
    assert claims["exp"] - claims["iat"] == 3600


def test_the_header_of_the_token_says_what_it_is(shared_server: Server, token: str) -> None:
    (key,) = shared_server.http.get("/.well-known/jwks.json").json()["keys"]
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "typ": "at+jwt", "kid": key["kid"]}


def test_another_librarys_check_notices_a_changed_token(shared_server: Server, token: str) -> None:
    keys = jwt.PyJWKClient(f"http://127.0.0.1:{shared_server.port}/.well-known/jwks.json")
    header, payload, signature = token.split(".")
    changed = f"{header}.{payload}.{'A' * len(signature)}"
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(changed, keys.get_signing_key_from_jwt(token), algorithms=["ES256"], options={"verify_aud": False})


def test_the_token_opens_the_api(shared_server: Server, client: dict[str, Any], token: str) -> None:
    answer = shared_server.get_me(token)
    assert answer.status_code == 200
    assert answer.json()["code"] == "success"
    me = answer.json()["data"]
    assert (me["client_id"], me["scope"]) == (client["client_id"], SCOPE)


def test_every_token_has_an_id_of_its_own(shared_server: Server, client: dict[str, Any]) -> None:
    tokens = [shared_server.token(client) for _ in range(5)]
    ids = {jwt.decode(token, options={"verify_signature": False})["jti"] for token in tokens}
    assert len(ids) == 5
