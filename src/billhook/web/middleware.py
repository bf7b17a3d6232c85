"""Around every request: an id, a log line, a count, and an answer even when we have a bug."""

import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from billhook.errors import BillhookError, InvalidParameters
from billhook.log import REQUEST_ID
from billhook.web.access import AccessLog, Line
from billhook.web.metrics import Metrics
from billhook.web.problems import answer
from billhook.web.requests import read_body

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
GIVEN_ID = re.compile(
    rb"[0-9A-Za-z._-]{8,48}"
)  # an id that a caller brings along is kept, if it is harmless; a secret is longer
ONE_TIME = re.compile(r"(/(?:set-up|invitation)/)[^/]+", re.IGNORECASE)
QUIET = ("/healthz", "/readyz", "/metrics")  # asked every few seconds by machines; logged only when they fail

log = structlog.get_logger(__name__)


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Lane(Protocol):
    """A handler that waits for nothing: a whole request in, an answer out."""

    largest_body: int

    def __call__(self, scope: Scope, body: bytes) -> Answer: ...

    def refuse(self, error: BillhookError) -> Answer:
        """When the body could not be read."""
        ...


class RequestManners:
    """The outermost application. `lanes` are exact routes (method, path) that go past the framework, for speed."""

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
        lane = self.lanes.get((scope["method"], scope["path"]))
        if lane is None:
            await self._pass_on(scope, receive, send)
            return
        status, headers, body = await self._take_asgi(lane, scope, receive)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _take_asgi(self, lane: Lane, scope: Scope, receive: Receive) -> Answer:
        try:
            body = await read_body(scope, receive, limit=lane.largest_body)
        except BillhookError as error:
            return self._refuse(lane.refuse(error), scope)
        return self.take(lane, scope, body)

    def take(self, lane: Lane, scope: Scope, body: bytes) -> Answer:
        """A request that is here as a whole. The server calls this directly when it can."""
        request_id, started = _request_id(scope), time.perf_counter()
        outer = REQUEST_ID.set(request_id)
        try:
            answered = lane(scope, body)
        except Exception:  # the edge: the bug is logged, the caller gets an answer, the process goes on
            log.exception("bug", method=scope["method"], path=scope["path"])
            answered = answer_to(BillhookError())
        answered.headers.append((b"x-request-id", request_id.encode()))
        self._note(scope, scope["path"], answered.status, time.perf_counter() - started)
        REQUEST_ID.reset(outer)
        return answered

    def _refuse(self, answered: Answer, scope: Scope) -> Answer:
        """The same manners for what never reached a handler."""
        request_id = _request_id(scope)
        outer = REQUEST_ID.set(request_id)
        answered.headers.append((b"x-request-id", request_id.encode()))
        self._note(scope, scope["path"], answered.status, 0.0)
        REQUEST_ID.reset(outer)
        return answered

    def refuse_garbage(self, message: str, scope: Scope | None) -> Answer:
        """An answer to what is not even HTTP; `scope` is what was understood of it, if anything."""
        client = (scope or {}).get("client")
        understood: Scope = {"method": "other", "path": "none", "headers": [], "client": client}
        return self._refuse(answer_to(InvalidParameters(message)), understood)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id, started, status = _request_id(scope), time.perf_counter(), 0
        REQUEST_ID.set(request_id)

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:  # the edge, as above; the framework has answered already, with the handler for bugs
            log.exception("bug", method=scope["method"], path=shown(scope["path"]))
        self._note(scope, _route(scope), status, time.perf_counter() - started)

    def _note(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        method = scope["method"]
        self.metrics.requests.add(method if method in METHODS else "other", route, status, seconds)
        if route.endswith(QUIET) and status < 400:
            return
        peer = (scope.get("client") or ("-",))[0]
        self.access.note(Line(time.time(), REQUEST_ID.get(), method, shown(scope["path"]), status, seconds, peer))


def shown(path: str) -> str:
    """As it may stand in the log: whoever reads it must not be able to use a link that is good for once."""
    return ONE_TIME.sub(r"\1…", path) if "/console/" in path else path


def as_handler(lane: Lane) -> Callable[[Request], Awaitable[Response]]:
    """The same as an ordinary route, so that the route table is whole and other methods are refused."""

    async def handler(request: Request) -> Response:
        body = await read_body(request.scope, request.receive, limit=lane.largest_body)
        status, headers, content = lane(request.scope, body)
        response = Response(content, status)
        response.raw_headers = headers
        return response

    return handler


def answer_to(error: BillhookError) -> Answer:
    response = answer(error)
    return Answer(response.status_code, response.raw_headers, bytes(response.body))


def _route(scope: Scope) -> str:
    """The route's pattern, never the path itself: there is no end to the paths people can ask for."""
    path = getattr(scope.get("route"), "path", None)
    return "none" if path is None else scope.get("root_path", "") + path


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and GIVEN_ID.fullmatch(value):
            return str(value.decode())
    return os.urandom(8).hex()
