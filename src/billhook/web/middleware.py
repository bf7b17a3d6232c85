"""Around every request: an id, a log line, a count, and an answer even when we have a bug."""

import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from billhook.errors import BillhookError
from billhook.log import REQUEST_ID
from billhook.web.access import AccessLog, Line
from billhook.web.metrics import Metrics
from billhook.web.problems import answer

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
GIVEN_ID = re.compile(rb"[0-9A-Za-z._-]{8,64}")  # an id that a proxy or caller brings along is kept, if it is harmless
QUIET = {"/healthz", "/readyz", "/metrics"}  # asked every few seconds by machines; logged only when they fail

log = structlog.get_logger(__name__)


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


Lane = Callable[[Scope, Receive], Awaitable[Answer]]


class RequestManners:
    """The outermost application. `lanes` are exact routes that go past the framework, for speed."""

    def __init__(
        self, app: ASGIApp, *, lanes: Mapping[tuple[str, str], Lane], metrics: Metrics, access: AccessLog
    ) -> None:
        self.app = app
        self.lanes = lanes
        self.metrics = metrics
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        REQUEST_ID.set(request_id)
        started = time.perf_counter()
        lane = self.lanes.get((scope["method"], scope["path"]))
        if lane is None:
            status, route = await self._pass_on(scope, receive, send), _route(scope)
        else:
            status, route = await self._answer(lane, scope, receive, send), scope["path"]
        self._note(scope, route, status, time.perf_counter() - started)

    async def _answer(self, lane: Lane, scope: Scope, receive: Receive, send: Send) -> int:
        try:
            status, headers, body = await lane(scope, receive)
        except Exception:  # the edge: the bug is logged, the caller gets an answer, the process goes on
            log.exception("bug", method=scope["method"], path=scope["path"])
            status, headers, body = answer_to(BillhookError())
        headers = [*headers, (b"x-request-id", REQUEST_ID.get().encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return status

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> int:
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", REQUEST_ID.get().encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:  # the edge, as above; the framework has answered already, with the handler for bugs
            log.exception("bug", method=scope["method"], path=scope["path"])
        return status

    def _note(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        method = scope["method"]
        self.metrics.requests.add(method if method in METHODS else "other", route, status, seconds)
        if route in QUIET and status < 400:
            return
        peer = (scope.get("client") or ("-",))[0]
        self.access.note(Line(time.time(), REQUEST_ID.get(), method, scope["path"], status, seconds, peer))


def as_handler(lane: Lane) -> Callable[[Request], Awaitable[Response]]:
    """The same as an ordinary route, so that the route table is whole and other methods are refused."""

    async def handler(request: Request) -> Response:
        status, headers, body = await lane(request.scope, request.receive)
        response = Response(body, status)
        response.raw_headers = headers
        return response

    return handler


def answer_to(error: BillhookError) -> Answer:
    response = answer(error)
    return Answer(response.status_code, response.raw_headers, bytes(response.body))


def _route(scope: Scope) -> str:
    """The route's pattern, never the path itself: there is no end to the paths people can ask for."""
    return getattr(scope.get("route"), "path", "none")


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and GIVEN_ID.fullmatch(value):
            return str(value.decode())
    return os.urandom(8).hex()
