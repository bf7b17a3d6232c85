"""The HTTP server: uvicorn, with a short cut for lanes, no patience for slow clients, and status 0 at its end."""

import asyncio
import math
import socket
import time
from collections.abc import Callable
from types import FrameType
from weakref import WeakKeyDictionary

import uvicorn
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from billhook.web.lanes import Answer, Lane
from billhook.web.middleware import RequestManners
from billhook.web.requests import header

GRACE_SECONDS = 20  # requests in the air may take this long after SIGTERM
SLOWEST_REQUEST_SECONDS = 10.0  # from its first byte, or from the opening of the connection, to the end of its body
LARGEST_HEAD = 64 * 1024  # request line and headers
BACKLOG = 2048
TICKS_PER_SECOND = 10  # how often uvicorn calls on_tick


State = tuple[int, float]  # of a connection: requests begun, and our patience with it


class LaneProtocol(HttpToolsProtocol):
    """A plain request for a lane is answered in the next turn of the loop after its last byte.

    No task, no events, no ASGI messages: they would cost as much as a signature (docs/decisions/0003). Whatever is not
    plain takes uvicorn's way.
    """

    _lane: Lane | None = None  # of the request that is arriving
    _body = b""
    _is_in_head = False
    _head_bytes = 0
    _is_stopping = False
    _is_due = False  # the answer of a lane to the request before
    is_arriving = False  # a request has begun and its end is not here yet
    begun = 0  # requests on this connection

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > LARGEST_HEAD:
                self.send_400_response("the head of the request is too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.begun += 1
        self.is_arriving = self._is_in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._lane = self._lane_of_request()
        self._body = b""
        if self._lane is None:
            self._answer_what_came_before()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._lane is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        self.is_arriving = False
        if self._lane is None:
            super().on_message_complete()
            return
        lane, self._lane = self._lane, None
        self._is_due = True
        reply = self._reply if self.parser.should_keep_alive() else self._reply_and_close
        self._manners.take_soon(lane, self._request_scope, self._body, reply)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the same words as everything else."""
        self._answer_what_came_before()
        if not self.transport.is_closing():
            self._is_stopping = True
            self._write(self._manners.refuse_garbage(msg, self._request_scope))

    def eof_received(self) -> None:
        """Who says nothing more may still be listening."""
        self._answer_what_came_before()

    def pause_writing(self) -> None:
        """Who does not read our answers is not read either."""
        super().pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.flow.resume_reading()

    def shutdown(self) -> None:
        """A request whose body is still arriving is in the air as well."""
        if self._lane is None and not self._is_due:
            super().shutdown()
        else:
            self._is_stopping = True

    @property
    def is_resting(self) -> bool:
        """All that was asked is answered."""
        return not self._is_due and (self.cycle is None or self.cycle.response_complete)

    @property
    def _manners(self) -> RequestManners:
        manners: RequestManners = self.app
        return manners

    @property
    def _request_scope(self) -> Scope:
        return self.scope  # type: ignore[return-value]

    def _lane_of_request(self) -> Lane | None:
        """Only for a request of known and bearable length, with none before it unanswered, that will stay HTTP."""
        parser, request = self.parser, (self.parser.get_method().decode("ascii"), self.url.decode("ascii"))
        lane = self._manners.lanes.get(request)
        if lane is None or self.expect_100_continue or parser.should_upgrade() or parser.get_http_version() != "1.1":
            return None
        if not self.is_resting:  # one at a time, so that who sends many at once does not keep all others waiting
            return None
        scope = self._request_scope
        scope["method"], scope["path"] = request
        length = header(scope, b"content-length")
        return lane if 0 < len(length) < 10 and int(length) <= lane.largest_body else None

    def _answer_what_came_before(self) -> None:
        if self._is_due:
            self._manners.answer_waiting()

    def _reply(self, answer: Answer) -> None:
        self._is_due = False
        if not self.transport.is_closing():
            self._write(answer)

    def _reply_and_close(self, answer: Answer) -> None:
        self._is_stopping = True
        self._reply(answer)

    def _write(self, answer: Answer) -> None:
        headers = self.server_state.default_headers + answer.headers
        if self._is_stopping:
            headers.append((b"connection", b"close"))
        head = b"\r\n".join(map(b": ".join, headers))
        self.transport.write(b"".join((STATUS_LINE[answer.status], head, b"\r\n\r\n", answer.body)))
        self.server_state.total_requests += 1
        if self._is_stopping:
            self.transport.close()


class Server(uvicorn.Server):
    def __init__(
        self,
        app: RequestManners,
        *,
        slowest_request_seconds: float = SLOWEST_REQUEST_SECONDS,
        when_told_to_stop: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(_config(app))
        self._when_told_to_stop = when_told_to_stop
        self._slowest = slowest_request_seconds
        self._waiting: WeakKeyDictionary[LaneProtocol, tuple[State, float]] = WeakKeyDictionary()  # and since when

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn would remember the signal and raise it again after its clean stop. A second one ends the patience."""
        self.force_exit = self.should_exit
        self.stop()

    def stop(self) -> None:
        self.should_exit = True
        self._when_told_to_stop()

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_SECOND == 0:
            self.hang_up_on_the_slow(time.monotonic())
        return await super().on_tick(counter)

    def hang_up_on_the_slow(self, now: float) -> None:
        """One look at all connections a second costs less than a timer for each request, and sees idle ones as well."""
        for connection in list(self.server_state.connections):
            assert isinstance(connection, LaneProtocol)
            patience = self._patience_with(connection)
            state = (connection.begun, patience)
            seen, since = self._waiting.get(connection, (state, now))
            if seen != state:
                since = now
            self._waiting[connection] = (state, since)
            if now - since > patience:
                _hang_up(connection.transport)

    def _patience_with(self, connection: LaneProtocol) -> float:
        """Seconds that the connection may stay as it is; there is no end to them while we are the ones to act."""
        if connection.is_arriving or connection.begun == 0:
            return self._slowest
        return connection.timeout_keep_alive if connection.is_resting else math.inf


def _hang_up(transport: asyncio.Transport) -> None:
    """Without further ado, when it was asked to close before and does not read what it is still to get."""
    if transport.is_closing():
        transport.abort()
    else:
        transport.close()


def _config(app: RequestManners) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=LaneProtocol,
        ws="none",
        lifespan="off",  # what lives as long as the server is opened around it, so that it can refuse in one line
        log_config=None,
        access_log=False,  # the middleware writes its own
        server_header=False,
        proxy_headers=False,  # web/requests.py decides whom to believe
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; callers wait in its queue until the server accepts. Raises OSError when the port is taken."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)  # only this finds out that somebody else is listening there
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
