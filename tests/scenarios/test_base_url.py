"""A base URL with a path: everything is served under it, and the tokens say so."""

from typing import Any

import httpx
import jwt
import pytest

from tests.scenarios.processes import Billhook, Server, problem

BASE_URL = "https://example.com/billing"


@pytest.fixture(scope="module")
def client(shared_billhook: Billhook) -> dict[str, Any]:
    return shared_billhook.create_client()


@pytest.fixture(scope="module")
def server(client: dict[str, Any], shared_billhook: Billhook) -> Server:
    return shared_billhook.serve(prefix="/billing", BILLHOOK_BASE_URL=f"{BASE_URL}/")


def root(server: Server, path: str) -> httpx.Response:
    """From the root of the server, outside of the prefix."""
    return httpx.get(f"http://127.0.0.1:{server.port}{path}")


def test_a_token_names_the_base_url_as_issuer_and_audience(server: Server, client: dict[str, Any]) -> None:
    token = server.token(client)
    keys = jwt.PyJWKClient(f"http://127.0.0.1:{server.port}/billing/.well-known/jwks.json")
    key = keys.get_signing_key_from_jwt(token)
    claims = jwt.decode(token, key, algorithms=["ES256"], issuer=BASE_URL, audience=BASE_URL)
    assert claims["iss"] == claims["aud"] == BASE_URL
    assert server.accepts(token)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/docs.css"])
def test_everything_is_served_under_the_path(server: Server, path: str) -> None:
    assert server.http.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/billing", "/billing/", "/billing/console"])
def test_the_path_itself_leads_to_the_console(server: Server, path: str) -> None:
    answer = root(server, path)
    assert (answer.status_code, answer.headers["location"]) == (307, "/billing/console/")


@pytest.mark.parametrize("path", ["/", "/healthz", "/auth", "/api/v1/me", "/billingx", "/x/billing/auth", "/console/"])
def test_nothing_is_served_beside_it(server: Server, path: str) -> None:
    answer = root(server, path)
    assert (answer.status_code, problem(answer)) == (404, "route/not-found")


def test_the_routes_under_the_path_keep_their_manners(server: Server) -> None:
    unknown, wrong = server.http.get("/nowhere"), server.http.get("/auth")
    assert (unknown.status_code, problem(unknown)) == (404, "route/not-found")
    assert (wrong.status_code, problem(wrong)) == (405, "route/method-not-allowed")


def test_a_wrong_method_under_the_path_is_told_the_right_one(server: Server) -> None:
    assert server.http.get("/auth").headers["allow"] == "POST"


@pytest.mark.parametrize(
    "path",
    ["/.well-known/oauth-authorization-server/billing", "/billing/.well-known/oauth-authorization-server"],
)
def test_the_metadata_are_where_rfc_8414_wants_them_and_under_the_path(server: Server, path: str) -> None:
    found = root(server, path).json()
    assert found["issuer"] == BASE_URL
    assert found["token_endpoint"] == f"{BASE_URL}/oauth2/token"
    assert found["jwks_uri"] == f"{BASE_URL}/.well-known/jwks.json"


def test_the_oauth_door_is_open_under_the_path(server: Server, client: dict[str, Any]) -> None:
    basic = (client["client_id"], client["client_secret"])
    answer = server.http.post("/oauth2/token", data={"grant_type": "client_credentials"}, auth=basic)
    assert server.accepts(answer.json()["access_token"])


def test_the_openapi_document_says_where_the_routes_are(server: Server) -> None:
    assert server.http.get("/openapi.json").json()["servers"] == [{"url": "/billing"}]
