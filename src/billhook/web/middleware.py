"""Around every request: an id, a log line, a count, and an answer even when we have a bug."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from billhook.errors import BillhookError, InvalidParameters
from billhook.log import REQUEST_ID
from billhook.web.access import AccessLog, Line
from billhook.web.lanes import Answer, Lane, Visit, answer_to, serve_together
from billhook.web.metrics import Metrics
from billhook.web.requests import read_body, request_id_of

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
ONE_TIME = re.compile(r"(/(?:set-up|invitation)/)[^/]+", re.IGNORECASE)
QUIET = ("/healthz", "/readyz", "/metrics")  # asked every few seconds by machines; logged only when they fail

MOST_TOGETHER = 64  # requests on lanes; with as many signatures in a row there is nothing more to gain

Reply = Callable[[Answer], None]

log = structlog.get_logger(__name__)


class RequestManners:
    """The outermost application. `lanes` are exact routes (method, path) that go past the framework, for speed."""

    def __init__(
        self, app: ASGIApp, *, lanes: Mapping[tuple[str, str], Lane], metrics: Metrics, access: AccessLog
    ) -> None:
        self.app = app
        self.lanes = lanes
        self.metrics = metrics
        self.access = access
        self._waiting: deque[tuple[Visit, Reply]] = deque()

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
        visit, answers = Visit(lane, scope, body), list[Answer]()
        serve_together([visit])
        self._finish(visit, answers.append)
        return answers[0]

    def take_soon(self, lane: Lane, scope: Scope, body: bytes, reply: Reply) -> None:
        """A request that is here as a whole, with all those that come in the same turn of the loop."""
        self._waiting.append((Visit(lane, scope, body), reply))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._answer_in_turn)

    def answer_waiting(self) -> None:
        """All of them now, because something else is going to be said on one of their connections."""
        while self._waiting:
            self._take_some()

    def _answer_in_turn(self) -> None:
        """The first do not wait until the last have their answer as well."""
        try:
            self._take_some()
        finally:
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._answer_in_turn)

    def _take_some(self) -> None:
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
        serve_together([visit for visit, _ in taken])
        for visit, reply in taken:
            try:
                self._finish(visit, reply)
            except Exception:  # the edge: nobody waits in vain because of another one's bug
                log.exception("bug", method=visit.scope["method"], path=visit.scope["path"])

    def _finish(self, visit: Visit, reply: Reply) -> None:
        assert visit.answer is not None
        visit.answer.headers.append((b"x-request-id", visit.request_id.encode()))
        reply(visit.answer)
        seconds = time.perf_counter() - visit.started
        self._note(visit.scope, visit.scope["path"], visit.answer.status, seconds, visit.request_id)

    def _refuse(self, answered: Answer, scope: Scope) -> Answer:
        """The same manners for what never reached a handler."""
        request_id = request_id_of(scope)
        answered.headers.append((b"x-request-id", request_id.encode()))
        self._note(scope, scope["path"], answered.status, 0.0, request_id)
        return answered

    def refuse_garbage(self, message: str, scope: Scope | None) -> Answer:
        """An answer to what is not even HTTP; `scope` is what was understood of it, if anything."""
        client = (scope or {}).get("client")
        understood: Scope = {"method": "other", "path": "none", "headers": [], "client": client}
        return self._refuse(answer_to(InvalidParameters(message)), understood)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id, started, status = request_id_of(scope), time.perf_counter(), 0
        REQUEST_ID.set(request_id)

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:  # the edge again; the framework has answered already, with the handler for bugs
            log.exception("bug", method=scope["method"], path=shown(scope["path"]))
        self._note(scope, _route(scope), status, time.perf_counter() - started, request_id)

    def _note(self, scope: Scope, route: str, status: int, seconds: float, request_id: str) -> None:
        method = scope["method"]
        self.metrics.requests.add(method if method in METHODS else "other", route, status, seconds)
        if route.endswith(QUIET) and status < 400:
            return
        peer = (scope.get("client") or ("-",))[0]
        self.access.note(Line(time.time(), request_id, method, shown(scope["path"]), status, seconds, peer))


def shown(path: str) -> str:
    """As it may stand in the log: whoever reads it must not be able to use a link that is good for once."""
    return ONE_TIME.sub(r"\1…", path) if "/console/" in path else path


def _route(scope: Scope) -> str:
    """The route's pattern, never the path itself: there is no end to the paths people can ask for."""
    path = getattr(scope.get("route"), "path", None)
    return "none" if path is None else scope.get("root_path", "") + path
