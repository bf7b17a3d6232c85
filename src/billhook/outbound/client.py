"""The only door to the Internet: one request out, and whatever happens, one Exchange back."""

import math
import ssl
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
from billhook.outbound.wording import Request

LONGEST_BODY = 64 * 1024  # bytes that are read; a response that ends within them leaves its connection usable
MOST_HEADERS = 128

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds. The total holds everything: lookup, connection, request, response."""

    dns: float = 2.0
    connect: float = 5.0  # TCP and TLS together
    total: float = 15.0

    def timeout(self, spent: float = 0.0) -> aiohttp.ClientTimeout:
        """As aiohttp takes it, without its rounding up to whole seconds. Its timer runs until the body is read."""
        return aiohttp.ClientTimeout(
            total=max(self.total - spent, 0.001),  # 0 would mean no limit
            connect=self.dns + self.connect,
            sock_connect=self.connect,
            ceil_threshold=math.inf,
        )


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
        self._session: aiohttp.ClientSession | None = None

    async def send(self, outgoing: Outgoing) -> Exchange:
        """Once; a receiver or a network that misbehaves is told in the result, never raised."""
        trace = Trace(outgoing.headers)
        token = TRACE.set(trace)
        try:
            await self._converse(outgoing, trace)
        except FAILURES as failure:
            self._tell_operator(failure, outgoing)
            return trace.exchange(word_for(failure))
        finally:
            TRACE.reset(token)
        return trace.exchange()

    async def _converse(self, outgoing: Outgoing, trace: Trace) -> None:
        url = parse_target(outgoing.url)
        try:
            response = await self._request(outgoing, url)
        except aiohttp.ClientConnectionError:
            if not trace.met_a_closed_connection:
                raise
            trace.fresh_only = True
            response = await self._request(outgoing, url, spent_seconds=milliseconds_since(trace.started) / 1000)
        try:
            trace.first_byte = milliseconds_since(trace.started)
            trace.status, trace.headers = response.status, kept_headers(response.raw_headers)
            await _read(response.content, trace)
        finally:
            if response.connection is not None:  # there is more to come, which nobody wants
                response.close()

    async def _request(self, outgoing: Outgoing, url: URL, *, spent_seconds: float = 0.0) -> aiohttp.ClientResponse:
        session = self._session or self._open()
        return await session.request(
            outgoing.method,
            url,
            data=outgoing.body,
            allow_redirects=False,
            timeout=self._timeout if not spent_seconds else self._budget.timeout(spent_seconds),
        )

    def _open(self) -> aiohttp.ClientSession:
        self._resolver = Resolver(self._guard, nameservers=self._nameservers, deadline_seconds=self._budget.dns)
        self._session = aiohttp.ClientSession(
            connector=Connector(self._guard, self._resolver, ssl=self._ssl_context),
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=Request,
            auto_decompress=False,
            trust_env=False,  # a proxy would dial whatever it likes
            read_bufsize=LONGEST_BODY // 2,
            max_headers=MOST_HEADERS,
        )
        self._session._retry_connection = False  # it would send a GET twice on new connections too
        return self._session

    def _tell_operator(self, failure: BaseException, outgoing: Outgoing) -> None:
        if blocked := blocked_by(failure):
            host = URL(outgoing.url, encoded=True).raw_host  # the rest of the URL may be secret
            log.warning("a webhook was not sent: its address is not allowed", host=host, address=blocked.address)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()
        self._session = self._resolver = None


def _default_ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _read(content: aiohttp.StreamReader, trace: Trace) -> None:
    while trace.size < LONGEST_BODY and (chunk := await content.readany()):
        trace.take(chunk)
