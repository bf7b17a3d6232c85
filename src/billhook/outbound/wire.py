"""One connection to a receiver, which cannot make us read more than we want."""

from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

LONGEST_HEAD = 32 * 1024  # bytes, together with all 1xx responses before it

MOST_HEADERS = 128
READ_AHEAD = 32 * 1024  # bytes of a body that may wait to be read

Message = tuple[RawResponseMessage, StreamReader]


class Wire(ResponseHandler):
    """One connection. aiohttp bounds a line and the number of headers; here the head is bounded as a whole."""

    address: str | None = None
    received = 0  # bytes since the request was sent
    _head_ended = False

    async def ask(self, request: bytes) -> Message:
        """Send it, and return the head of the answer, with the body to come."""
        self.received, self._head_ended = 0, False
        self.set_response_params(
            read_until_eof=True, auto_decompress=False, read_bufsize=READ_AHEAD, max_headers=MOST_HEADERS
        )
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the connection was closed")
        self.transport.write(request)
        answer, body = await self.read()
        while 100 <= answer.code < 200 and answer.code != 101:
            answer, body = await self.read()
        return answer, body

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
