"""OAuth libraries, as their users have them, get tokens at the OAuth door."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from oauthlib.oauth2 import BackendApplicationClient, InvalidClientError, InvalidScopeError
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session as RequestsSession

from tests.scenarios.processes import CLIENTS_SCOPE, Billhook, Server

NARROW = "clients:read"
METHODS = ["client_secret_basic", "client_secret_post"]


@pytest.fixture(scope="module")
def client(shared_billhook: Billhook) -> dict[str, Any]:
    return shared_billhook.create_client(scope=CLIENTS_SCOPE)


@pytest.fixture(scope="module")
def server(client: dict[str, Any], shared_server: Server) -> Server:
    return shared_server


@pytest.fixture(scope="module")
def metadata(server: Server) -> dict[str, Any]:
    """Where everything is, as the service itself says (RFC 8414)."""
    found: dict[str, Any] = server.http.get("/.well-known/oauth-authorization-server").json()
    return found


@pytest.fixture(autouse=True)
def insecure_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    """oauthlib refuses plain http, which we speak here to ourselves."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


def authlib_session(client: dict[str, Any], method: str = METHODS[0], **options: Any) -> Any:
    return AuthlibSession(client["client_id"], client["client_secret"], token_endpoint_auth_method=method, **options)


@pytest.mark.parametrize("method", METHODS)
def test_authlib_gets_a_token_that_opens_the_api(client: dict[str, Any], metadata: dict[str, Any], method: str) -> None:
    with authlib_session(client, method) as session:
        token = session.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")
        assert (token["token_type"], token["expires_in"], token["scope"]) == ("Bearer", 3600, CLIENTS_SCOPE)
        me = session.get(f"{metadata['issuer']}/api/v1/me")
        assert me.json()["data"]["client_id"] == client["client_id"]


def test_authlib_gets_a_token_for_less_when_it_asks_for_less(
    server: Server, client: dict[str, Any], metadata: dict[str, Any]
) -> None:
    with authlib_session(client, scope=NARROW) as session:
        token = session.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")
        assert token["scope"] == NARROW
        assert server.get_me(token["access_token"]).json()["data"]["scope"] == NARROW


async def test_authlib_for_asyncio_gets_a_token_that_opens_the_api(
    client: dict[str, Any], metadata: dict[str, Any]
) -> None:
    async with AsyncOAuth2Client(client["client_id"], client["client_secret"], scope=NARROW) as session:
        token = await session.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")
        assert token["scope"] == NARROW
        me: httpx.Response = await session.get(f"{metadata['issuer']}/api/v1/me")
        assert me.json()["data"]["client_id"] == client["client_id"]


def test_authlib_introspects_and_revokes_a_token(
    server: Server, client: dict[str, Any], metadata: dict[str, Any]
) -> None:
    with authlib_session(client) as session:
        token = session.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")["access_token"]
        seen = session.introspect_token(metadata["introspection_endpoint"], token=token).json()
        assert (seen["active"], seen["client_id"], seen["scope"]) == (True, client["client_id"], CLIENTS_SCOPE)
        assert session.revoke_token(metadata["revocation_endpoint"], token=token).status_code == 200
        assert session.introspect_token(metadata["introspection_endpoint"], token=token).json() == {"active": False}
        assert not server.accepts(token)


@pytest.fixture
def backend(client: dict[str, Any]) -> Iterator[Any]:
    with RequestsSession(client=BackendApplicationClient(client_id=client["client_id"])) as session:
        yield session


def test_oauthlib_gets_a_token_with_basic(backend: Any, client: dict[str, Any], metadata: dict[str, Any]) -> None:
    basic = HTTPBasicAuth(client["client_id"], client["client_secret"])
    token = backend.fetch_token(metadata["token_endpoint"], auth=basic)
    assert token["scope"] == CLIENTS_SCOPE.split()
    assert backend.get(f"{metadata['issuer']}/api/v1/me").status_code == 200


def test_oauthlib_gets_a_token_with_the_secret_in_the_form(
    backend: Any, client: dict[str, Any], metadata: dict[str, Any]
) -> None:
    secret = client["client_secret"]
    token = backend.fetch_token(metadata["token_endpoint"], client_secret=secret, include_client_id=True)
    assert token["token_type"] == "Bearer"
    assert backend.get(f"{metadata['issuer']}/api/v1/me").status_code == 200


def test_oauthlib_gets_a_token_for_less_when_it_asks_for_less(client: dict[str, Any], metadata: dict[str, Any]) -> None:
    application = BackendApplicationClient(client_id=client["client_id"], scope=[NARROW])
    with RequestsSession(client=application, scope=[NARROW]) as session:
        token = session.fetch_token(metadata["token_endpoint"], client_secret=client["client_secret"])
        assert token["scope"] == [NARROW]


def test_oauthlib_understands_that_the_secret_is_wrong(
    backend: Any, client: dict[str, Any], metadata: dict[str, Any]
) -> None:
    with pytest.raises(InvalidClientError):
        backend.fetch_token(metadata["token_endpoint"], auth=HTTPBasicAuth(client["client_id"], "wrong"))


def test_oauthlib_understands_that_it_asks_for_too_much(client: dict[str, Any], metadata: dict[str, Any]) -> None:
    application = BackendApplicationClient(client_id=client["client_id"], scope=["groups:write"])
    with RequestsSession(client=application) as session, pytest.raises(InvalidScopeError):
        session.fetch_token(metadata["token_endpoint"], client_secret=client["client_secret"])
