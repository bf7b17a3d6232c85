"""A paced sender of notifications in its own process: it notes for each when it went out and when its 202 came.

Unlike `load`, it does not wait for answers before it sends on, and it keeps the ids of what it sent, so that
arrivals can be matched with sends.
"""

import asyncio
import gc
import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic
from typing import cast

import uvloop

from bench.affinity import GENERATOR_CORE
from bench.child import Child, child, say
from bench.response import Response, read_response
from bench.servers import Failed

CONNECTIONS = 8  # to begin with; more are opened when all wait for an answer
STALLED_SECONDS = 30.0


@dataclass(frozen=True)
class Plan:
    port: int
    requests: tuple[str, ...]  # whole HTTP requests, in turn
    count: int
    rate: float  # a second


@dataclass(frozen=True)
class Sent:
    delivery_id: str
    sent_at: float  # monotonic
    answered_at: float


class Sender:
    """The parent's side."""

    def __init__(self, process: Child) -> None:
        self._process = process

    def send(self, plan: Plan) -> list[Sent]:
        answers = self._process.ask(asdict(plan), seconds=plan.count / plan.rate + STALLED_SECONDS + 10)
        refused = [status for status, *_ in answers if status != 202]
        if refused:
            raise Failed(f"{len(refused)} of {plan.count} sends were refused, the first with status {refused[0]}")
        return [Sent(*rest) for _, *rest in answers]


@contextmanager
def sender() -> Iterator[Sender]:
    with child("bench.sender", core=GENERATOR_CORE) as process:
        process.hear()
        yield Sender(process)


class Line(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    is_open = True
    _waiter: asyncio.Future[tuple[Response, float]] | None = None
    _buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def ask(self, request: bytes) -> tuple[Response, float]:
        """The answer, and when its last byte came."""
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiter

    def data_received(self, data: bytes) -> None:
        now = monotonic()
        self._buffer += data
        response = read_response(self._buffer)
        if response is not None and self._waiter is not None:
            self._buffer = b""
            self._waiter.set_result((response, now))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError("the server closed the connection"))


class Lines:
    """Those that rest; the one used last is used first, so that few are kept warm."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._resting: list[Line] = []

    async def open(self) -> Line:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Line, "127.0.0.1", self._port))[1]

    async def take(self) -> Line:
        while self._resting:
            if (line := self._resting.pop()).is_open:
                return line
        return await self.open()

    def put(self, line: Line) -> None:
        self._resting.append(line)


async def _send(lines: Lines, request: bytes) -> tuple[Response, float, float]:
    sent_at = monotonic()
    line = await lines.take()
    try:
        response, answered_at = await line.ask(request)
    except ConnectionError:  # it rested for so long that the server closed it in this very moment
        line = await lines.open()
        response, answered_at = await line.ask(request)
    lines.put(line)
    return response, sent_at, answered_at


async def generate(plan: Plan) -> list[tuple[int, str, float, float]]:
    lines = Lines(plan.port)
    for line in [await lines.open() for _ in range(CONNECTIONS)]:
        lines.put(line)
    requests = itertools.cycle([request.encode("latin-1") for request in plan.requests])
    began, sends = monotonic(), []
    for number in range(plan.count):
        await asyncio.sleep(max(0.0, began + number / plan.rate - monotonic()))
        sends.append(asyncio.create_task(_send(lines, next(requests))))
    answers = await asyncio.wait_for(asyncio.gather(*sends), STALLED_SECONDS)
    return [(response.status, _delivery_id(response), sent, answered) for response, sent, answered in answers]


def _delivery_id(response: Response) -> str:
    """Of the first delivery: the groups here have one provider each."""
    return str(json.loads(response.body)["data"]["deliveries"][0]["id"]) if response.status == 202 else ""


def main() -> None:
    gc.disable()  # a collection here would show as latency of the server
    say("ready")
    for line in sys.stdin:
        fields = json.loads(line)
        say(uvloop.run(generate(Plan(**{**fields, "requests": tuple(fields["requests"])}))))


if __name__ == "__main__":
    main()
