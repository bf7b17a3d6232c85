"""A closed-loop HTTP load generator in its own process: prepared bytes out, counted answers in.

The parent calls `run`; the child is this module as a program. They talk in lines: the plan, "ready" once every
connection stands, "go", and the result. So the parent can read a meter exactly around the measured window.
"""

import asyncio
import gc
import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import IO, cast

import uvloop

from bench.affinity import GENERATOR_CORE, pinned_to
from bench.response import read_response

BROKEN = 0  # the "status" of a request whose connection ended before the answer
STALLED_SECONDS = 90.0  # past the end of the run: a slow hash for each connection takes half of it on a busy machine


@dataclass(frozen=True)
class Plan:
    """What to send, and for how long."""

    port: int
    requests: tuple[str, ...]  # whole HTTP requests in Latin-1; connections take turns over them
    connections: int = 32
    seconds: float = 3.0
    rate: float | None = None  # requests a second over all connections; None is as fast as answers come


@dataclass(frozen=True)
class Result:
    count: int
    seconds: float
    p50: float  # seconds
    p99: float
    statuses: dict[int, int]

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


def run(plan: Plan, *, meter: Callable[[], float] = perf_counter) -> tuple[Result, float]:
    """Carry the plan out in a process of its own; also how much `meter` advanced from first request to last answer."""
    with pinned_to(GENERATOR_CORE):
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    with child:
        assert child.stdin is not None and child.stdout is not None
        try:
            _tell(child.stdin, json.dumps(asdict(plan)))
            _hear(child.stdout)
            before = meter()
            _tell(child.stdin, "go")
            answer = _hear(child.stdout)
            spent = meter() - before
        except BaseException:  # told to stop ourselves: nobody wants the rest of the load
            child.kill()
            raise
    return _result(json.loads(answer)), spent


def _tell(pipe: IO[str], line: str) -> None:
    pipe.write(line + "\n")
    pipe.flush()


def _hear(pipe: IO[str]) -> str:
    line = pipe.readline()
    if not line:
        raise RuntimeError("the load generator ended early; its message is above")
    return line


def _result(fields: dict[str, object]) -> Result:
    statuses = fields.pop("statuses")
    assert isinstance(statuses, dict)
    return Result(statuses={int(status): n for status, n in statuses.items()}, **fields)  # type: ignore[arg-type]


class Tally:
    """The answers so far, and whether there should be more."""

    def __init__(self, plan: Plan) -> None:
        self.statuses: Counter[int] = Counter()
        self.latencies: list[float] = []
        self._seconds = plan.seconds
        self.started_at = self.ended_at = 0.0

    def start(self) -> None:
        self.started_at = perf_counter()

    def may_send(self, now: float) -> bool:
        return now - self.started_at < self._seconds

    def record(self, status: int, *, latency: float, now: float) -> None:
        self.statuses[status] += 1
        self.latencies.append(latency)
        self.ended_at = now

    def result(self) -> Result:
        ordered = sorted(self.latencies) or [0.0]
        return Result(
            count=len(self.latencies),
            seconds=self.ended_at - self.started_at,
            p50=ordered[len(ordered) // 2],
            p99=ordered[len(ordered) * 99 // 100],
            statuses=dict(self.statuses),
        )


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    def __init__(self, requests: Iterator[bytes], tally: Tally, *, interval: float | None) -> None:
        self._requests = requests
        self._tally = tally
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._since: float | None = None  # when the request under way began; None while there is none
        self._due = 0.0
        self.finished = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but ancestry

    def begin(self, delay: float) -> None:
        """Send the first request; paced connections begin spread out, so that they do not beat in step."""
        self._due = perf_counter() + delay
        if delay:
            self._loop.call_later(delay, self._send_idle)
        else:
            self._send_idle()

    def _send_idle(self) -> None:
        # A late timer is our own lateness and not the server's: the clock starts when the bytes leave.
        now = perf_counter()
        self._send(now, since=now)

    def _send(self, now: float, *, since: float) -> None:
        if not self._tally.may_send(now):
            self._finish()
            return
        self._since = since
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        response = read_response(self._buffer)
        if response is None or self._since is None:
            return
        self._buffer = b""
        now = perf_counter()
        self._tally.record(response.status, latency=now - self._since, now=now)
        self._since = None
        self._send_next(now)

    def _send_next(self, now: float) -> None:
        if self._interval is None:
            self._send(now, since=now)
            return
        self._due += self._interval
        if self._due <= now:
            # The answer was slower than the pace: this request has been waiting since it was due, and that counts.
            self._send(now, since=self._due)
        else:
            self._loop.call_later(self._due - now, self._send_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._since is not None:
            now = perf_counter()
            self._tally.record(BROKEN, latency=now - self._since, now=now)
            self._since = None
        self._finish()

    def _finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)
        self._transport.close()


async def generate(plan: Plan, *, wait_for_go: Callable[[], None]) -> Result:
    """Connect, wait for the word, send until the plan is done."""
    tally = Tally(plan)
    interval = plan.connections / plan.rate if plan.rate else None
    connections = await _connect(plan, tally, interval=interval)
    wait_for_go()
    tally.start()
    for index, connection in enumerate(connections):
        connection.begin((interval or 0.0) * index / len(connections))
    await asyncio.wait_for(asyncio.gather(*(c.finished for c in connections)), plan.seconds + STALLED_SECONDS)
    return tally.result()


async def _connect(plan: Plan, tally: Tally, *, interval: float | None) -> list[Connection]:
    requests = itertools.cycle([request.encode("latin-1") for request in plan.requests])
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(plan.connections):
        _, connection = await loop.create_connection(
            lambda: Connection(requests, tally, interval=interval), "127.0.0.1", plan.port
        )
        connections.append(connection)
    return connections


def _wait_for_go() -> None:
    _tell(sys.stdout, "ready")
    sys.stdin.readline()


def main() -> None:
    fields = json.loads(sys.stdin.readline())
    plan = Plan(**{**fields, "requests": tuple(fields["requests"])})
    gc.disable()  # a collection in the generator would show as latency of the server
    result = uvloop.run(generate(plan, wait_for_go=_wait_for_go))
    _tell(sys.stdout, json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
