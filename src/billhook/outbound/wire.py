"""One connection to a receiver, which cannot make us read more than we want."""

from typing import Any

from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

LONGEST_HEAD = 32 * 1024  # bytes, together with all 1xx responses before it

Message = tuple[RawResponseMessage, StreamReader]


class Wire(ResponseHandler):
    """One connection. aiohttp bounds a line and the number of headers; here the head is bounded as a whole."""

    address: str | None = None
    received = 0  # bytes since the request was sent
    _head_ended = False

    def set_response_params(self, **params: Any) -> None:
        """aiohttp calls this once before each request."""
        self.received, self._head_ended = 0, False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        super().data_received(data)
        if self.received > LONGEST_HEAD and not self._head_ended:
            self._refuse_head()

    def feed_data(self, data: Message, size: int = 0) -> None:
        """A head was read: pass it on, unless it is too long."""
        message = data[0]
        if self.received > LONGEST_HEAD and _length(message) > LONGEST_HEAD:
            return
        self._head_ended = message.code >= 200
        super().feed_data(data, size)

    def _refuse_head(self) -> None:
        self._head_ended = True
        self.set_exception(HttpProcessingError(message="the head is too long"))
        if self.transport is not None:
            self.transport.abort()

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """What ends the connection ends the body: aiohttp leaves its reader waiting when a chunk is malformed."""
        super().set_exception(exc, *cause)
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        if exc is not None and self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(exc)  # else a body that ends with the connection would seem complete
        super().connection_lost(exc)

    def close(self) -> None:
        """At once: a farewell over TLS would let a silent receiver hold the socket for another 30 s."""
        self.abort()


def _length(message: RawResponseMessage) -> int:
    return sum(len(name) + len(value) + 4 for name, value in message.raw_headers)
