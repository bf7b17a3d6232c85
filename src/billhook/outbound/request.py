"""What goes out and what came back, as values that can be stored and shown.

Tuples with names, since several are made for each attempt: a frozen dataclass takes five times as long to make.
"""

from typing import NamedTuple

Headers = tuple[tuple[str, str], ...]

# Each sentence is all that a customer learns: no address, no system message, no name of ours.
ERRORS = {
    "bad_url": "The URL cannot be used.",
    "bad_response": "The receiver did not answer in valid HTTP.",
    "blocked_address": "The receiver's address is not allowed.",
    "connection_refused": "The receiver refused the connection.",
    "connection_reset": "The receiver closed the connection before its answer was complete.",
    "dns_error": "The receiver's name could not be looked up.",
    "network_error": "The receiver could not be reached.",
    "network_unreachable": "There is no way to the receiver's network.",
    "timeout": "The receiver took too long.",
    "tls_error": "No trusted TLS connection to the receiver could be made.",
}


class Outgoing(NamedTuple):
    """A request, ready to be sent as it stands; the network adds Host and Content-Length."""

    method: str
    url: str
    headers: Headers
    body: bytes | None


class Asked(NamedTuple):
    """A request as it may be kept and shown: no secret is in it, and nothing of what it said."""

    method: str
    url: str
    headers: Headers


class Timings(NamedTuple):
    """Milliseconds; None for a phase that was not needed, as on a reused connection, or that did not end."""

    dns: float | None
    connect: float | None
    tls: float | None
    first_byte: float | None  # from the start of the attempt to the end of the response's head
    total: float


class Exchange(NamedTuple):
    """What came of it: a status, an error (a word of ERRORS), or both when the answer broke off after its head."""

    status: int | None
    error: str | None
    address: str | None
    timings: Timings
    headers: Headers
    body: bytes
    truncated: bool
    asked: Asked | None = None  # told by whoever knows what is secret in the request
