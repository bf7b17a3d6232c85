"""Every error of every route has one shape."""

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from billhook import errors
from billhook.app import App
from billhook.errors import BillhookError, FieldError, InvalidParameters
from billhook.web.problems import body_of
from tests.web.conftest import add_route

RAISED: list[tuple[BillhookError, int, str]] = [
    (InvalidParameters.of("name", "is required"), 400, "bad-request/invalid-parameters"),
    (errors.Unauthenticated(detail="why"), 401, "failed"),
    (errors.Forbidden(scope="clients:read"), 403, "authorization/forbidden"),
    (errors.ClientNotFound(), 404, "client/not-found"),
    (errors.GroupNotFound(), 404, "group/not-found"),
    (errors.ProviderNotFound(), 404, "provider/not-found"),
    (errors.NotificationNotFound(), 404, "notification/not-found"),
    (errors.DeliveryNotFound(), 404, "delivery/not-found"),
    (errors.RecoveryNotFound(), 404, "recovery/not-found"),
    (errors.UserNotFound(), 404, "user/not-found"),
    (errors.InvitationNotFound(), 404, "invitation/not-found"),
    (errors.RouteNotFound(), 404, "route/not-found"),
    (errors.MethodNotAllowed(allow="GET"), 405, "route/method-not-allowed"),
    (errors.ClientConflict("the client is revoked"), 409, "client/conflict"),
    (errors.GroupConflict("another group has this name"), 409, "group/conflict"),
    (errors.ProviderConflict("the group is full"), 409, "provider/conflict"),
    (errors.NotificationConflict("another notification"), 409, "notification/conflict"),
    (errors.DeliveryConflict("being attempted"), 409, "delivery/conflict"),
    (errors.UserConflict("there is already such a user"), 409, "user/conflict"),
    (errors.TooLarge(), 413, "request/too-large"),
    (errors.RateLimited(retry_after_seconds=7), 429, "rate-limit/exceeded"),
    (errors.BillhookError(detail="why"), 500, "internal/error"),
    (errors.Unavailable(detail="why"), 503, "internal/unavailable"),
]

HEADERS = {401: "www-authenticate", 403: "www-authenticate", 405: "allow", 429: "retry-after", 503: "retry-after"}


def raising(app: App, error: Exception) -> None:
    async def handler(_request: Request) -> Response:
        raise error

    add_route(app, "/raise", handler)


@pytest.mark.parametrize(("error", "status", "code"), RAISED, ids=lambda value: str(getattr(value, "code", value)))
async def test_each_error_has_its_status_and_code(
    app: App, http: httpx.AsyncClient, error: BillhookError, status: int, code: str
) -> None:
    raising(app, error)
    answer = await http.get("/raise")
    assert (answer.status_code, answer.json()["code"], answer.json()["message"]) == (status, code, error.message)
    assert answer.headers["cache-control"] == "no-store"
    assert HEADERS.get(status, "content-type") in answer.headers
    assert "why" not in answer.text


def test_every_error_that_a_caller_may_see_is_in_the_table() -> None:
    def leaves(kind: type[BillhookError]) -> set[type[BillhookError]]:
        below = kind.__subclasses__()
        return set().union(*map(leaves, below)) if below else {kind}

    ours = {kind for kind in leaves(BillhookError) if kind.__module__ == "billhook.errors"}
    assert ours - {errors.Refusal} <= {type(error) for error, _, _ in RAISED}


def test_field_errors_are_listed_beside_the_message() -> None:
    error = InvalidParameters(errors=[FieldError("name", "is required"), FieldError("scope", "unknown: x")])
    assert body_of(error).keys() == {"code", "message"}
    assert body_of(error, with_fields=True) == {
        "code": "bad-request/invalid-parameters",
        "message": "name: is required; scope: unknown: x",
        "errors": [{"field": "name", "message": "is required"}, {"field": "scope", "message": "unknown: x"}],
    }


@pytest.mark.parametrize("path", ["/nowhere", "/auth/", "/api/v1/nowhere", "/api/v1", "/api/v1/clients/", "//"])
async def test_an_unknown_route_is_told_in_json(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(f"http://billhook.test{path}")
    assert answer.status_code == 404
    assert answer.json() == {"code": "route/not-found", "message": "there is no such route"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/auth", {"POST"}),
        ("PUT", "/oauth2/token", {"POST"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
        ("BREW", "/docs", {"GET", "HEAD"}),
        ("PUT", "/api/v1/me", {"GET"}),
    ],
)
async def test_a_wrong_method_is_told_in_json_with_the_right_ones(
    http: httpx.AsyncClient, method: str, path: str, allowed: set[str]
) -> None:
    answer = await http.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (405, "route/method-not-allowed")
    assert {name.strip() for name in answer.headers["allow"].split(",")} == allowed


async def test_a_wrong_method_is_told_all_the_right_ones(http: httpx.AsyncClient) -> None:
    answer = await http.put("/api/v1/clients")
    assert {name.strip() for name in answer.headers["allow"].split(",")} == {"GET", "POST"}


@pytest.mark.parametrize(
    ("status", "code"), [(404, "route/not-found"), (413, "request/too-large"), (418, "bad-request/invalid-parameters")]
)
async def test_what_the_framework_refuses_has_the_same_shape(
    app: App, http: httpx.AsyncClient, status: int, code: str
) -> None:
    raising(app, HTTPException(status, detail="in the framework's words"))
    answer = await http.get("/raise")
    assert answer.json()["code"] == code
    assert "framework" not in answer.text


async def test_a_body_that_cannot_be_read_is_told_by_field(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    answer = await http.post("/api/v1/clients", headers=headers, json={"scope": "groups:read", "lifespan": []})
    assert answer.status_code == 400
    assert {error["field"] for error in answer.json()["errors"]} == {"name", "lifespan"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"name": "\\ud800", "scope": "groups:read"}'])
async def test_a_body_that_is_not_json_is_told_in_json(
    http: httpx.AsyncClient, headers: dict[str, str], body: bytes
) -> None:
    typed = headers | {"Content-Type": "application/json"}
    answer = await http.post("/api/v1/clients", headers=typed, content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request/invalid-parameters")
