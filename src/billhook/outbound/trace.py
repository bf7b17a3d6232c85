"""What is learned during one attempt, gathered where it happens."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

from billhook.outbound.request import Exchange, Headers, Timings
from billhook.outbound.wire import Wire

KEEP = 16 * 1024  # bytes of a response's body that are stored and shown


@dataclass(slots=True)
class Trace:
    """One attempt's notes. Whoever opens a connection writes to them; on a reused one nobody has to."""

    started: float = field(default_factory=perf_counter)
    not_after: float = inf  # monotonic: from then on nothing may be sent
    fresh_only: bool = False  # a pooled connection will not do
    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    first_byte: float | None = None
    wire: Wire | None = None
    address: str | None = None
    status: int | None = None
    headers: Headers = ()
    body: bytes = b""
    size: int = 0

    def take(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.body += chunk[: KEEP - len(self.body)]

    @property
    def met_a_closed_connection(self) -> bool:
        """The receiver closed a pooled connection before it answered: that says nothing about the receiver."""
        return self.wire is not None and self.connect is None and not self.wire.received

    def exchange(self, error: str | None = None) -> Exchange:
        timings = Timings(self.dns, self.connect, self.tls, self.first_byte, milliseconds_since(self.started))
        truncated = self.size > len(self.body)
        return Exchange(self.status, error, self.address, timings, self.headers, self.body, truncated)


# The trace of the attempt that the running code is part of. Cheaper than aiohttp's TraceConfig, which works on
# every request, also on those that open no connection.
TRACE: ContextVar[Trace] = ContextVar("trace")


def milliseconds_since(moment: float) -> float:
    return (perf_counter() - moment) * 1000
