"""The HTTP server: uvicorn, made to end with status 0, and to hang up on clients that never finish a request."""

import socket
import time
from types import FrameType
from weakref import WeakKeyDictionary

import uvicorn
from starlette.types import ASGIApp

GRACE_SECONDS = 20  # requests in the air may take this long after SIGTERM
SLOWEST_REQUEST_SECONDS = 10.0  # from its first byte, or from the opening of the connection, to the end of its body
BACKLOG = 2048
TICKS_PER_SECOND = 10  # how often uvicorn calls on_tick


class Server(uvicorn.Server):
    def __init__(self, app: ASGIApp, *, slowest_request_seconds: float = SLOWEST_REQUEST_SECONDS) -> None:
        super().__init__(_config(app))
        self._slowest = slowest_request_seconds
        self._reading: WeakKeyDictionary[object, tuple[int, float]] = WeakKeyDictionary()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn would remember the signal and raise it again after its clean stop. A second one ends the patience."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_SECOND == 0:
            self.hang_up_on_the_slow(time.monotonic())
        return await super().on_tick(counter)

    def hang_up_on_the_slow(self, now: float) -> None:
        """One look at all connections a second costs less than a timer for each request, and sees idle ones as well."""
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            is_reading = cycle is None or (cycle.more_body and not cycle.response_complete)
            request, since = self._reading.get(connection, (0, now))
            if not is_reading or request != id(cycle):
                since = now
            self._reading[connection] = (id(cycle), since)
            if is_reading and now - since > self._slowest and connection.transport:
                connection.transport.close()


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="httptools",
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
