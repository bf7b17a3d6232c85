"""Around every request: an id, a log line, two measurements, and an answer even when we have a bug."""

import os
import re
import time
from collections.abc import Callable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from billhook.log import REQUEST_ID, Access
from billhook.web.metrics import Metrics

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
GIVEN_ID = re.compile(rb"[0-9A-Za-z._-]{8,64}")  # an id that a proxy or caller brings along is kept, if it is harmless
QUIET = {"/healthz", "/readyz", "/metrics"}  # asked every few seconds by machines; logged only when they fail

log = structlog.get_logger(__name__)


class RequestManners:
    def __init__(self, app: ASGIApp, metrics: Metrics, access: Access) -> None:
        self.app = app
        self.metrics = metrics
        self.access = access
        self._observers: dict[tuple[str, str, int], Callable[[float], None]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        REQUEST_ID.set(request_id)
        started, status = time.perf_counter(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"x-request-id", request_id.encode()))
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            log.exception("bug", method=scope["method"], path=scope["path"])
        self._note(scope, status, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method, route = scope["method"], getattr(scope.get("route"), "path", "none")
        self._observer(method if method in METHODS else "other", route, status)(seconds)
        if route in QUIET and status < 400:
            return
        peer = (scope.get("client") or ("-",))[0]
        took = round(seconds * 1000, 2)
        self.access(method=method, path=scope["path"], status=status, milliseconds=took, peer=peer)

    def _observer(self, method: str, route: str, status: int) -> Callable[[float], None]:
        """How to count such a request; looked up once, because finding a metric costs more than moving it."""
        key = (method, route, status)
        if key not in self._observers:
            self._observers[key] = self.metrics.observer(method, route, status)
        return self._observers[key]


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and GIVEN_ID.fullmatch(value):
            return str(value.decode())
    return os.urandom(8).hex()
