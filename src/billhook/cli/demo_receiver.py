"""The receiver of the demo: what happens at each of its paths as a table, and a server that does it."""

import asyncio
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

PATIENCE_SECONDS = 10.0  # with who connects and says nothing
HEAD = re.compile(rb"[A-Z]+ ([^ ?]+)[^ ]* HTTP/1\.[01]\r\n")
LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,7})\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: str = '{"received": true}'
    seconds: float = 0.02  # that it takes
    retry_after: int | None = None
    media_type: str = "application/json"


HANGS_UP = None
WELL = Reply()
QUEUED = Reply(202, '{"status": "queued"}', seconds=0.06)
SUGGESTED = Reply(200, '{"mode": "dry-run"}', seconds=0.25)
BUSY = Reply(429, '{"error": "4 requests a minute"}', retry_after=20)
CRASHED = Reply(
    500, "NullPointerException: approver\n  at approvals.Route.next(Route.java:88)\n", 0.2, None, "text/plain"
)
CLOSED = Reply(503, '{"error": "maintenance", "until": "tonight"}', retry_after=45)
MISSING = Reply(404, "<h1>Page not found</h1>\n<p>It may have been moved.</p>\n", media_type="text/html")
GONE = Reply(410, '{"error": "This dashboard was retired."}')

# What a path answers, one after the other, and again from the start.
PATHS: dict[str, tuple[Reply | None, ...]] = {
    "/chat/finops": (WELL, WELL, Reply(seconds=0.05)),
    "/chat/platform": (WELL, Reply(seconds=0.04)),
    "/pager/events": (QUEUED, Reply(202, QUEUED.body, seconds=0.1)),
    "/triage/inbox": (Reply(204, "", seconds=0.03),),
    "/mailer/send": (Reply(200, '{"recipients": 14}', seconds=0.12), Reply(200, '{"recipients": 14}', seconds=0.3)),
    "/rightsizing/suggest": (*4 * (SUGGESTED,), BUSY),
    "/savings/track": (WELL,),
    "/warehouse/load": tuple(Reply(201, '{"rows": 1}', seconds) for seconds in (1.2, 2.4, 0.9, 3.5, 1.6)),
    "/approvals/requests": (QUEUED, QUEUED, CRASHED),
    "/procurement/offers": (HANGS_UP, WELL, HANGS_UP, HANGS_UP, WELL),
    "/service-desk/tickets": (CLOSED,),
    "/wiki/cost-report": (MISSING,),
    "/old-dashboard/feed": (GONE,),
}


def reply_to(path: str, visit: int) -> Reply | None:
    """What comes of the first, second, … request for a path; None when the receiver hangs up on it."""
    turns = PATHS.get(path, (MISSING,))
    return turns[(visit - 1) % len(turns)]


@asynccontextmanager
async def receiving(listener: socket.socket) -> AsyncIterator[None]:
    visits: Counter[str] = Counter()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await _answer(reader, writer, visits)
        except (OSError, EOFError, ValueError):  # who does not speak HTTP is not answered
            writer.transport.abort()

    server = await asyncio.start_server(meet, sock=listener)
    try:
        yield
    finally:
        server.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visits: Counter[str]) -> None:
    """One request, one reply: the connection is closed after it."""
    path = await _read_path(reader)
    if path in PATHS:
        visits[path] += 1
    reply = reply_to(path, visits[path])
    if reply is HANGS_UP:
        writer.transport.abort()
        return
    await asyncio.sleep(reply.seconds)
    writer.write(spell(reply))
    await writer.drain()
    writer.close()


async def _read_path(reader: asyncio.StreamReader) -> str:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ValueError("the head is too long") from None
    if (request := HEAD.match(head)) is None:
        raise ValueError("this is no HTTP")
    if (length := LENGTH.search(head)) is not None:
        await reader.readexactly(int(length[1]))
    return request[1].decode("ascii")


def spell(reply: Reply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers_of(reply)]
    return "\r\n".join([*lines, "", reply.body]).encode()


def headers_of(reply: Reply) -> list[tuple[str, str]]:
    headers = [("Server", "demo-receiver")]
    if reply.body:
        headers += [("Content-Type", reply.media_type), ("Content-Length", str(len(reply.body.encode())))]
    if reply.retry_after is not None:
        headers.append(("Retry-After", str(reply.retry_after)))
    return headers
