"""Lanes: routes that go past the framework, for speed. Those who ask at the same moment are served side by side.

A signature reads 150 KB of tables. After the Python and the sockets of a whole request they are gone from the caches,
and it costs nearly twice what it costs right after another one. So a handler stops where something heavy is due, and
what is due in all of them is done in a row (docs/decisions/0003).
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeVar

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from billhook.errors import BillhookError
from billhook.log import REQUEST_ID
from billhook.web.problems import answer
from billhook.web.requests import read_body, request_id_of

log = structlog.get_logger(__name__)

T = TypeVar("T")
Heavy = Callable[[], bytes]
Steps = Generator[Heavy, Any, T]  # yields what is heavy, is sent what that gave, and returns its result


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Lane(Protocol):
    """A handler that waits for nothing: a whole request in, an answer out."""

    largest_body: int

    def __call__(self, scope: Scope, body: bytes) -> Steps[Answer]: ...

    def refuse(self, error: BillhookError) -> Answer:
        """When the body could not be read."""
        ...


class Visit:
    """A request that is here as a whole, on its way along a lane."""

    __slots__ = ("_next", "_steps", "answer", "due", "request_id", "scope", "started")

    def __init__(self, lane: Lane, scope: Scope, body: bytes) -> None:
        self.scope, self.request_id, self.started = scope, request_id_of(scope), perf_counter()
        self._steps = lane(scope, body)
        self._next: Callable[[], Heavy] = self._steps.__next__
        self.due: Heavy | None = None
        self.answer: Answer | None = None

    def go_on(self) -> None:
        """To where something heavy is due, or to the answer."""
        outer = REQUEST_ID.set(self.request_id)
        try:
            self.due = self._next()
        except StopIteration as end:
            self.due, self.answer = None, end.value
        except Exception:  # the edge: the bug is logged, the caller gets an answer, the process goes on
            log.exception("bug", method=self.scope["method"], path=self.scope["path"])
            self.due, self.answer = None, answer_to(BillhookError())
        finally:
            REQUEST_ID.reset(outer)

    def lift(self, heavy: Heavy) -> None:
        self._next = _lifted(self._steps, heavy)


def serve_together(visits: Sequence[Visit]) -> None:
    """Until each has its answer."""
    for visit in visits:
        visit.go_on()
    while under_way := [(visit, visit.due) for visit in visits if visit.due is not None]:
        for visit, heavy in under_way:
            visit.lift(heavy)
        for visit, _ in under_way:
            visit.go_on()


def at_once(steps: Steps[T]) -> T:
    """By itself, for whoever is not on a lane."""
    go_on: Callable[[], Heavy] = steps.__next__
    while True:
        try:
            due = go_on()
        except StopIteration as end:
            returned: T = end.value
            return returned
        go_on = _lifted(steps, due)


def _lifted(steps: Steps[Any], heavy: Heavy) -> Callable[[], Heavy]:
    """How it goes on with what that gave."""
    try:
        return partial(steps.send, heavy())
    except Exception as error:  # noqa: BLE001 - raised again where it was asked for
        return partial(steps.throw, error)


def as_handler(lane: Lane) -> Callable[[Request], Awaitable[Response]]:
    """The same as an ordinary route, so that the route table is whole and other methods are refused."""

    async def handler(request: Request) -> Response:
        body = await read_body(request.scope, request.receive, limit=lane.largest_body)
        status, headers, content = at_once(lane(request.scope, body))
        response = Response(content, status)
        response.raw_headers = headers
        return response

    return handler


def answer_to(error: BillhookError) -> Answer:
    response = answer(error)
    return Answer(response.status_code, response.raw_headers, bytes(response.body))
