"""Receivers on this machine, well-behaved and hostile, that record every byte they were sent."""

import asyncio
import ssl
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from socket import SO_LINGER, SOL_SOCKET
from types import TracebackType
from typing import Self

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GOODBYE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

Answer = Callable[[StreamReader, StreamWriter], Awaitable[None]]


class RawReceiver:
    """Answers each whole request with the given bytes, or by a function that writes what it likes and how it likes."""

    def __init__(
        self,
        answer: bytes | Answer = OK,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        greeting: bytes = b"",
    ) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._answer = answer
        self._host = host
        self._tls = tls
        self._greeting = greeting
        self.port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, path: str = "/hook", *, host: str | None = None) -> str:
        return f"{'https' if self._tls else 'http'}://{host or self._host}:{self.port}{path}"

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        writer.write(self._greeting)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while request := await read_request(reader):
                self.requests.append(request)
                await self._reply(reader, writer)
                if writer.is_closing():
                    break
        except ConnectionError:
            pass  # the sender had enough, which is what some tests are about
        finally:
            writer.transport.abort()

    async def _reply(self, reader: StreamReader, writer: StreamWriter) -> None:
        if not isinstance(self._answer, bytes):
            await self._answer(reader, writer)
            return
        writer.write(self._answer)
        await writer.drain()
        if b"\r\nConnection: close\r\n" in self._answer:
            writer.close()


async def read_request(reader: StreamReader) -> bytes:
    """One request as it came; nothing when the sender has closed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    return head + await reader.readexactly(length)


async def hang(reader: StreamReader, _writer: StreamWriter) -> None:
    """Never a byte."""
    await reader.read()


async def hang_up(_reader: StreamReader, writer: StreamWriter) -> None:
    writer.close()


def drip(answer: bytes) -> Answer:
    """One byte at a time, each in its own packet."""

    async def reply(_reader: StreamReader, writer: StreamWriter) -> None:
        for position in range(len(answer)):
            writer.write(answer[position : position + 1])
            await writer.drain()
            await asyncio.sleep(0)

    return reply


def then_hang(answer: bytes) -> Answer:
    async def reply(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(answer)
        await hang(reader, writer)

    return reply


def then_reset(answer: bytes) -> Answer:
    """The connection breaks without a farewell once the answer has been seen off."""

    async def reply(_reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        linger_no_more(writer)

    return reply


def linger_no_more(writer: StreamWriter) -> None:
    """Close with RST, as a crashed machine or a firewall does."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def endless(head: bytes, chunk: bytes) -> Answer:
    """For as long as the sender reads."""

    async def reply(_reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(chunk)
            await writer.drain()

    return reply
