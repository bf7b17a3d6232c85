"""Errors become answers here, once: the same JSON shape for every error of every route."""

from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from billhook.errors import (
    BillhookError,
    FieldError,
    InvalidParameters,
    MethodNotAllowed,
    RouteNotFound,
    TooLarge,
)
from billhook.web.responses import json_response

log = structlog.get_logger(__name__)

Body = dict[str, Any]


def body_of(error: BillhookError, *, with_fields: bool = False) -> Body:
    """`with_fields`: say field by field what is wrong. The contract of /auth and of OAuth has no place for that."""
    body: Body = {"code": error.code, "message": error.message}
    if with_fields and isinstance(error, InvalidParameters) and error.errors:
        body["errors"] = [{"field": item.field, "message": item.message} for item in error.errors]
    return body


def answer(error: BillhookError, *, with_fields: bool = False) -> Response:
    if error.status >= 500:
        log.warning("answered with a failure of ours", code=error.code, detail=error.detail)
    return json_response(
        body_of(error, with_fields=with_fields),
        status=error.status,
        headers=dict(error.headers) | {"Cache-Control": "no-store"},
    )


async def on_known_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BillhookError)
    return answer(error, with_fields=True)  # only the API lets errors come this far


async def on_http_error(request: Request, error: Exception) -> Response:
    """What the framework itself refuses: unknown routes, wrong methods, bodies it cannot read."""
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, BillhookError):  # raised while a body was read, and wrapped by FastAPI
        return answer(error.__cause__, with_fields=True)
    known: dict[int, BillhookError] = {
        404: RouteNotFound(),
        405: MethodNotAllowed(allow=", ".join(sorted(_methods_here(request, error)))),
        413: TooLarge(),
    }
    return answer(known.get(error.status_code) or InvalidParameters("the request cannot be read"))


def _methods_here(request: Request, error: HTTPException) -> set[str]:
    """Of all routes with this path: the framework names only those of the first one."""
    named = {method.strip() for method in (error.headers or {}).get("Allow", "").split(",")}
    here = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return (named | {method for route in here for method in getattr(route, "methods", None) or ()}) - {""}


async def on_invalid_request(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answer(InvalidParameters(errors=[_field_error(item) for item in error.errors()]), with_fields=True)


async def on_bug(_request: Request, _error: Exception) -> Response:
    """Nothing of the error reaches the caller; the middleware logs it with the request's id."""
    return answer(BillhookError())


def _field_error(item: dict[str, Any]) -> FieldError:
    """`("body", "request_headers", 0, "key")` is `request_headers[0].key`."""
    steps = item["loc"][item["loc"][0] in ("body", "query", "path", "header") :]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    message = str(item["msg"]).removeprefix("Value error, ")
    return FieldError(place.removeprefix(".") or "body", message[:1].lower() + message[1:])


Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]

HANDLERS: dict[Any, Handler] = {
    BillhookError: on_known_error,
    HTTPException: on_http_error,
    RequestValidationError: on_invalid_request,
    Exception: on_bug,
}
