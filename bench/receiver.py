"""A receiver of webhooks in its own process: it answers 200 as fast as Python can and notes when what arrived.

`/hang` never answers. The parent asks for the tally and the moments over a pipe (`Receiver`), so nothing of that goes
through the sockets that are measured; when the pipe ends, so does the process.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic, sleep
from typing import cast

import uvloop

from bench.child import Child, child, say
from bench.servers import Failed, Server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEAD_END = b"\r\n\r\n"
LENGTH = b"\r\ncontent-length: "
ID = b"\r\nwebhook-id: "
REF, REF_END = b"[ref ", b"]"  # in the body: how senders that have no webhook-id number what they send
HANG = b" /hang "
POLL_SECONDS = 0.05


@dataclass
class Tally:
    count: int = 0  # requests, without those that hang
    distinct: int = 0  # webhook-ids among them
    first: float = 0.0  # monotonic: the first byte of the first, and of the last
    last: float = 0.0
    hanging: int = 0  # connections that wait for an answer now

    @property
    def per_second(self) -> float:
        return (self.count - 1) / (self.last - self.first)


class Receiver:
    """The parent's side."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self.port = int(process.hear())
        self.cpu_seconds = process.cpu_seconds

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def reset(self) -> None:
        self._process.ask("reset")

    def tally(self) -> Tally:
        return Tally(**self._process.ask("tally"))

    def moments(self) -> dict[str, float]:
        """When the first byte of each webhook-id came first, on the monotonic clock that all processes share."""
        return dict(self._process.ask("moments"))

    def wait_for(self, count: int, *, seconds: float, by: Sequence[Server]) -> Tally:
        """Until so many different ones have arrived, while all live who send them."""
        began = monotonic()
        while (tally := self.tally()).distinct < count:
            waited = monotonic() - began
            if waited > seconds or not all(each.is_alive for each in by):
                names = ", ".join(sorted({each.name for each in by}))
                words = "\n".join(each.last_words for each in by)
                raise Failed(f"{names} delivered {tally.distinct} of {count} within {waited:.0f} s:\n{words}")
            sleep(POLL_SECONDS)
        return tally


@contextmanager
def receiver(*, core: int | None = None) -> Iterator[Receiver]:
    with child("bench.receiver", core=core) as process:
        yield Receiver(process)


class Arrivals:
    def __init__(self) -> None:
        self.tally = Tally()
        self.moments: dict[bytes, float] = {}

    def note(self, head: bytes, at: float, request: bytes) -> None:
        tally = self.tally
        tally.count += 1
        tally.first = tally.first or at
        tally.last = at
        if (found := head.find(ID)) >= 0:
            start = found + len(ID)
            self.moments.setdefault(head[start : head.find(b"\r\n", start)], at)
        elif (found := request.find(REF)) >= 0:
            self.moments.setdefault(request[found : request.find(REF_END, found)], at)

    def reset(self) -> None:
        self.tally, self.moments = Tally(hanging=self.tally.hanging), {}

    def answer(self, command: str) -> object:
        if command == "moments":
            return {webhook_id.decode(): at for webhook_id, at in self.moments.items()}
        if command == "reset":
            self.reset()
        self.tally.distinct = len(self.moments)
        return asdict(self.tally)


class Connection(asyncio.Protocol):
    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._buffer = b""
        self._since = 0.0
        self._hangs = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self._since = monotonic()
        self._buffer += data
        if not self._hangs:
            self._answer()

    def _answer(self) -> None:
        end = self._buffer.find(HEAD_END)
        if end < 0:
            return
        head = self._buffer[: end + 2].lower()
        if len(self._buffer) < end + len(HEAD_END) + _length(head):
            return
        request, self._buffer = self._buffer, b""  # one at a time: no client here sends the next before the answer
        if HANG in head[: head.find(b"\r\n")]:
            self._hangs = True
            self._arrivals.tally.hanging += 1
            return
        self._arrivals.note(head, self._since, request)
        self._transport.write(OK)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._hangs:
            self._arrivals.tally.hanging -= 1


def _length(head: bytes) -> int:
    found = head.find(LENGTH)
    return int(head[found + len(LENGTH) : head.find(b"\r\n", found + len(LENGTH))]) if found >= 0 else 0


async def serve() -> None:
    arrivals, loop = Arrivals(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(arrivals), "127.0.0.1", 0, backlog=1024)
    ended = asyncio.Event()

    def obey() -> None:
        commands = os.read(sys.stdin.fileno(), 4096).decode()  # the parent sends one and waits for its answer
        if not commands:
            ended.set()
        for command in commands.splitlines():
            say(arrivals.answer(command.strip('"')))

    loop.add_reader(sys.stdin.fileno(), obey)
    say(server.sockets[0].getsockname()[1])
    await ended.wait()


if __name__ == "__main__":
    gc.disable()  # a collection here would show as latency of the sender
    uvloop.run(serve())
