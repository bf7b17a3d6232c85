"""Receivers as the tests of deliveries need them, and what they were sent, taken apart."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from tests.outbound.receivers import OK, Answer, RawReceiver


def response(status: int, *headers: str, body: bytes = b"") -> bytes:
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def in_turn(*answers: bytes) -> Answer:
    """One after the other; the last one for all that come later."""
    left = list(answers)

    async def reply(_reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()

    return reply


class Gate:
    """Holds every request until it is opened, and counts those it holds at once."""

    def __init__(self, answer: bytes = OK) -> None:
        self.answer = answer
        self.holding = self.most = 0
        self._is_open = False
        self._waiting: deque[asyncio.Event] = deque()

    async def __call__(self, _reader: StreamReader, writer: StreamWriter) -> None:
        self.holding += 1
        self.most = max(self.most, self.holding)
        if not self._is_open:
            self._waiting.append(passes := asyncio.Event())
            await passes.wait()
        self.holding -= 1
        writer.write(self.answer)
        await writer.drain()

    def let_one_through(self) -> None:
        """The one that has waited longest."""
        self._waiting.popleft().set()

    def open(self) -> None:
        self._is_open = True
        while self._waiting:
            self.let_one_through()


@dataclass(frozen=True)
class Request:
    """One request as it came, in its parts."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def signed(self) -> str:
        """What the signature covers besides id and timestamp."""
        return self.body.decode() if self.method == "POST" else self.query

    @property
    def webhook_headers(self) -> dict[str, str]:
        return {name: value for name, value in self.headers if name.startswith("webhook-")}

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


def parsed(raw: bytes) -> Request:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _version = first.split(" ")
    headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return Request(method, target, headers, body)


def received(receiver: RawReceiver) -> list[Request]:
    return [parsed(raw) for raw in receiver.requests]
