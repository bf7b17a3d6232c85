"""The only door to the Internet: one request out, and whatever happens, one Exchange back."""

import asyncio
import math
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import structlog
from yarl import URL

from billhook.outbound.answer import kept_headers
from billhook.outbound.connector import Connector
from billhook.outbound.failure import FAILURES, blocked_by, word_for
from billhook.outbound.guard import Guard
from billhook.outbound.request import Exchange, Outgoing
from billhook.outbound.resolver import Resolver
from billhook.outbound.target import parse_target
from billhook.outbound.trace import TRACE, Trace, milliseconds_since
from billhook.outbound.wording import spell

STOOD_STILL_SECONDS = 1.0  # a timer that rings so late: the process was stopped, or its machine
TO_READ_SECONDS = 1.0  # what has come meanwhile
LONGEST_BODY = 64 * 1024  # bytes that are read; a response that ends within them leaves its connection usable

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds. The total holds everything: lookup, connection, request, response."""

    dns: float = 2.0
    connect: float = 5.0  # TCP and TLS together
    total: float = 15.0

    def timeout(self) -> aiohttp.ClientTimeout:
        """For dialling, as aiohttp takes it, without its rounding up to whole seconds."""
        return aiohttp.ClientTimeout(
            connect=self.dns + self.connect, sock_connect=self.connect, ceil_threshold=math.inf
        )


class TooLate(Exception):
    """It may not be sent any more: this process stood still."""


class Sender:
    """Made anywhere, used in one event loop, closed when nothing is in flight any more."""

    def __init__(
        self,
        guard: Guard,
        *,
        nameservers: Sequence[str] | None = None,
        budget: Budget = Budget(),  # noqa: B008 - it is frozen
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._nameservers = nameservers
        self._budget = budget
        self._timeout = budget.timeout()
        self._ssl_context = ssl_context or _default_ssl_context()
        self._resolver: Resolver | None = None
        self._connector: Connector | None = None

    async def send(self, outgoing: Outgoing, *, not_after: float = math.inf) -> Exchange:
        """Once; a receiver or a network that misbehaves is told in the result, never raised.

        `not_after` is of the monotonic clock. TooLate when nothing was sent until then.
        """
        trace = Trace(not_after=not_after)
        token = TRACE.set(trace)
        try:
            async with asyncio.timeout(None) as limit:
                end = _end_after(self._budget.total, limit)
                try:
                    await self._converse(outgoing, trace)
                finally:
                    end.cancel()
        except FAILURES as failure:
            self._tell_operator(failure, outgoing)
            return trace.exchange(word_for(failure))
        finally:
            TRACE.reset(token)
        return trace.exchange()

    async def _converse(self, outgoing: Outgoing, trace: Trace) -> None:
        url = parse_target(outgoing.url)
        request = spell(outgoing, url)
        try:
            await self._ask(url, request, trace)
        except (aiohttp.ClientConnectionError, ConnectionError):
            if not trace.met_a_closed_connection:
                raise
            trace.fresh_only = True
            await self._ask(url, request, trace)

    async def _ask(self, url: URL, request: bytes, trace: Trace) -> None:
        """One request on one connection. aiohttp's session would do the same at more than twice the cost."""
        connector = self._connector or self._open()
        connection = await connector.connect(connector.door(url.origin()), [], self._timeout)
        try:
            assert trace.wire is not None
            if time.monotonic() > trace.not_after:  # asked as late as can be
                raise TooLate
            answer, body = await trace.wire.ask(request)
            trace.first_byte = milliseconds_since(trace.started)
            trace.status, trace.headers = answer.code, kept_headers(answer.raw_headers)
            await _read(body, trace)
            if body.at_eof():
                connection.release()
        finally:
            connection.close()  # if it was not released: there is more to come, which nobody wants

    def _open(self) -> Connector:
        self._resolver = Resolver(self._guard, nameservers=self._nameservers, deadline_seconds=self._budget.dns)
        self._connector = Connector(self._guard, self._resolver, ssl=self._ssl_context)
        return self._connector

    def _tell_operator(self, failure: BaseException, outgoing: Outgoing) -> None:
        if blocked := blocked_by(failure):
            host = URL(outgoing.url, encoded=True).raw_host  # the rest of the URL may be secret
            log.warning("a webhook was not sent: its address is not allowed", host=host, address=blocked.address)

    async def close(self) -> None:
        if self._connector is not None:
            await self._connector.close()
        if self._resolver is not None:
            await self._resolver.close()
        self._connector = self._resolver = None


def _end_after(seconds: float, limit: asyncio.Timeout) -> asyncio.TimerHandle:
    """As a plain timeout would, unless this process stood still: then an answer may have come that nobody has read."""
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds

    def end() -> None:
        now = loop.time()
        limit.reschedule(now + TO_READ_SECONDS if now - due > STOOD_STILL_SECONDS else now)

    return loop.call_at(due, end)


def _default_ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _read(content: aiohttp.StreamReader, trace: Trace) -> None:
    while trace.size < LONGEST_BODY and (chunk := await content.readany()):
        trace.take(chunk)
