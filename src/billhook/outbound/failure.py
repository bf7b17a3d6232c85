"""Every way in which an attempt fails, as one of the words that customers see."""

import errno
import ssl

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from billhook.outbound.guard import Blocked
from billhook.outbound.target import BadUrl

# All that receivers and networks can do; anything else is a bug of ours.
FAILURES = (aiohttp.ClientError, HttpProcessingError, OSError, BadUrl)

# The first that fits counts, so the narrow ones come first.
WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (Blocked, "blocked_address"),
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorDNSError, "dns_error"),
    (aiohttp.ClientSSLError, "tls_error"),
    (ssl.SSLError, "tls_error"),
    (ConnectionRefusedError, "connection_refused"),
    (ConnectionError, "connection_reset"),
    (aiohttp.ServerDisconnectedError, "connection_reset"),
    (aiohttp.ClientPayloadError, "connection_reset"),
    (aiohttp.ClientResponseError, "bad_response"),
    (HttpProcessingError, "bad_response"),
    (aiohttp.InvalidURL, "bad_url"),
    (BadUrl, "bad_url"),
)
UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
RESET = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN}


def blocked_by(failure: BaseException) -> Blocked | None:
    cause = _system_error(failure)
    return cause if isinstance(cause, Blocked) else None


def word_for(failure: BaseException) -> str:
    """Judged by what the system said, where aiohttp wrapped that."""
    cause = _system_error(failure)
    for error in (cause, failure):
        for kind, word in WORDS:
            if isinstance(error, kind):
                return word
    return _word_for_number(getattr(cause, "errno", None))


def _system_error(failure: BaseException) -> BaseException:
    return failure.os_error if isinstance(failure, aiohttp.ClientConnectorError) else failure


def _word_for_number(number: int | None) -> str:
    if number in UNREACHABLE:
        return "network_unreachable"
    if number in RESET:
        return "connection_reset"
    return "timeout" if number == errno.ETIMEDOUT else "network_error"
