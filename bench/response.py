"""Where an HTTP/1.1 response ends: just enough parsing to count answers. Pure: bytes in, facts out."""

from dataclasses import dataclass

HEAD_END = b"\r\n\r\n"
BODILESS = frozenset({204, 304})


class Unreadable(Exception):
    """The server answered in a way that does not say where the answer ends."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    head: bytes
    body: bytes


def read_response(buffer: bytes) -> Response | None:
    """The one response in the buffer, or None while it is still arriving. A chunked body keeps its framing."""
    head_length = buffer.find(HEAD_END)
    if head_length < 0:
        return None
    head = buffer[:head_length]
    start = head_length + len(HEAD_END)
    end = _body_end(buffer, start, head=head)
    return Response(_status(head), head, buffer[start:end]) if end is not None else None


def _status(head: bytes) -> int:
    return int(head[9:12])  # "HTTP/1.1 201 Created"


def _body_end(buffer: bytes, start: int, *, head: bytes) -> int | None:
    headers = head.lower()
    if b"\r\ntransfer-encoding: chunked" in headers:
        return _chunks_end(buffer, start)
    end = start + _content_length(headers)
    return end if len(buffer) >= end else None


def _content_length(headers: bytes) -> int:
    _, found, rest = headers.partition(b"\r\ncontent-length:")
    if found:
        return int(rest.partition(b"\r\n")[0])
    if _status(headers) in BODILESS:
        return 0
    raise Unreadable(headers.decode("latin-1"))


def _chunks_end(buffer: bytes, start: int) -> int | None:
    while True:
        line_end = buffer.find(b"\r\n", start)
        if line_end < 0:
            return None
        size = int(buffer[start:line_end].partition(b";")[0], 16)
        if size == 0:
            return _trailer_end(buffer, line_end)
        start = line_end + 2 + size + 2


def _trailer_end(buffer: bytes, last_size_end: int) -> int | None:
    end = buffer.find(HEAD_END, last_size_end)  # without trailers the two line ends follow at once
    return end + len(HEAD_END) if end >= 0 else None
