"""Receivers with moods, in one process of their own: each answers 200, fails, hangs or refuses, as it is told.

Of every request it notes what a dispute would need: the webhook-id, when it came, whether it was taken (a 200
follows), from which process it came, and how far its webhook-timestamp was off. Who sent it is asked of the system, by
the connection's other end, so nothing of what is tested has to say its name.
"""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, cast

import orjson
import uvloop

from bench.child import Child, child, say

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno"
HEAD_END = b"\r\n\r\n"
THINKING_SECONDS = 0.15  # before an answer, so that something is in flight whenever somebody is killed
WELL, FAILS, HANGS, REFUSES = "well", "fails", "hangs", "refuses"
UNWELL = (FAILS, HANGS, REFUSES)


@dataclass(frozen=True)
class Arrival:
    webhook_id: str
    at: float  # monotonic: when the request was read
    taken: bool
    pid: int  # of the sender; 0: it was gone before anybody could look
    skew: int  # seconds by which the webhook-timestamp was off


class Moody:
    """The parent's side. Asked from several threads, one at a time."""

    def __init__(self, process: Child, count: int) -> None:
        self._process, self._lock = process, Lock()
        self.ports: list[int] = self._ask("open", count)

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{self.ports[number]}/hook"

    def be(self, number: int, mood: str) -> None:
        self._ask("be", number, mood)

    def know(self, pids: list[int]) -> None:
        """Which processes may send; others are not looked at."""
        self._ask("know", pids)

    def distinct(self) -> int:
        """How many webhook-ids were taken so far."""
        return int(self._ask("distinct"))

    def arrivals(self) -> list[Arrival]:
        found: list[Arrival] = []
        while page := self._ask("arrivals", len(found)):
            found += [Arrival(*row) for row in page]
        return found

    def _ask(self, *command: object) -> Any:
        with self._lock:
            return self._process.ask(command)


@contextmanager
def moody(count: int) -> Iterator[Moody]:
    with child("bench.moody") as process:
        yield Moody(process, count)


PAGE = 20_000  # arrivals in one line over the pipe


class Book:
    """What all receivers of this process write into."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, bool, int, int]] = []
        self.taken: set[str] = set()
        self.pids: list[int] = []

    def note(self, head: dict[bytes, bytes], pid: int, *, taken: bool) -> None:
        webhook_id = head.get(b"webhook-id", b"").decode()
        skew = int(head.get(b"webhook-timestamp", b"0")) - round(time.time())
        self.rows.append((webhook_id, monotonic(), taken, pid, skew))
        if taken:
            self.taken.add(webhook_id)


class Receiver:
    def __init__(self, book: Book) -> None:
        self.book, self.mood, self.port = book, WELL, 0
        self.lines: set[Line] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Line(self), "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def be(self, mood: str) -> None:
        """Who was left hanging is cut off without an answer when the mood changes: nothing of it was taken.

        What was taken is answered first: else a receiver of ours would be to blame for what comes twice.
        """
        self.mood = mood
        for line in list(self.lines):
            if mood == REFUSES or line.hangs:
                line.end()
        if mood == REFUSES and self._server is not None:
            self._server.close()
            self._server = None
        if mood != REFUSES and self._server is None:
            await self.open()


class Line(asyncio.Protocol):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver, self._buffer = receiver, b""
        self.hangs, self._thinks, self._is_last, self._pid = False, False, False, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._receiver.lines.add(self)
        self._pid = owner_of(transport.get_extra_info("peername")[1], self._receiver.book.pids)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(HEAD_END)
        if end < 0 or self.hangs or self._transport.is_closing():
            return
        head = _headers(self._buffer[:end])
        if len(self._buffer) < end + len(HEAD_END) + int(head.get(b"content-length", b"0")):
            return
        self._buffer = b""  # one request at a time: no client here sends the next before the answer
        self._answer(head)

    def _answer(self, head: dict[bytes, bytes]) -> None:
        """What comes is acted upon when it comes; the answer takes a moment."""
        mood = self._receiver.mood
        self._receiver.book.note(head, self._pid, taken=mood == WELL)
        self.hangs, self._thinks = mood == HANGS, mood != HANGS
        if self._thinks:
            asyncio.get_running_loop().call_later(THINKING_SECONDS, self._write, OK if mood == WELL else ERROR)

    def _write(self, answer: bytes) -> None:
        self._thinks = False
        if not self._transport.is_closing():  # the sender may have been killed meanwhile
            self._transport.write(answer)
        if self._is_last:
            self._transport.close()

    def end(self) -> None:
        self._is_last = True
        if not self._thinks:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.lines.discard(self)


def _headers(head: bytes) -> dict[bytes, bytes]:
    lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def owner_of(port: int, pids: list[int]) -> int:
    """Which of the processes has the loopback connection that begins at this port; 0 when none of them has it."""
    inode = _inode_of(port)
    if inode is None:
        return 0
    wanted = f"socket:[{inode}]"
    return next((pid for pid in pids if _has_open(pid, wanted)), 0)


def _inode_of(port: int) -> str | None:
    local = f"0100007F:{port:04X}"  # 127.0.0.1 as the kernel spells it
    with Path("/proc/net/tcp").open() as table:
        for line in table:
            fields = line.split()
            if fields[1] == local:
                return fields[9]
    return None


def _has_open(pid: int, wanted: str) -> bool:
    with suppress(OSError):  # the process has ended
        for each in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):  # this one was closed meanwhile
                if os.readlink(each.path) == wanted:
                    return True
    return False


class Desk:
    """Does what the parent asks, one after the other."""

    def __init__(self) -> None:
        self.book, self.receivers = Book(), list[Receiver]()

    async def answer(self, command: str, *arguments: Any) -> object:
        if command == "open":
            self.receivers = [Receiver(self.book) for _ in range(arguments[0])]
            for receiver in self.receivers:
                await receiver.open()
            return [receiver.port for receiver in self.receivers]
        if command == "be":
            await self.receivers[arguments[0]].be(arguments[1])
        if command == "know":
            self.book.pids = arguments[0]
        if command == "arrivals":
            return self.book.rows[arguments[0] : arguments[0] + PAGE]
        return len(self.book.taken)


async def serve() -> None:
    desk, reader = Desk(), asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        say(await desk.answer(*orjson.loads(line)))


if __name__ == "__main__":
    gc.disable()  # what is noted stays, and nothing else is made
    uvloop.run(serve())
