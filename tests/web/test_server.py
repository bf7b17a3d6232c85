"""The HTTP server: its patience with slow clients, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from billhook.app import App
from billhook.web.server import Server, listen
from tests.support import on_one_engine, until

HEAD = b"POST /auth HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
FOREVER = 1e9  # seconds: the server's own looks, once a second, must not matter here


@dataclass(frozen=True)
class Running:
    server: Server
    port: int

    async def connected(self) -> bool:
        return len(self.server.server_state.connections) == 1


@pytest.fixture
async def running(app: App) -> AsyncIterator[Running]:
    listener = listen("127.0.0.1", 0)
    server = Server(app.asgi, slowest_request_seconds=FOREVER)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield Running(server, listener.getsockname()[1])
    server.should_exit = True
    await serving


async def read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    """All that comes; a reset connection has ended as well."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HEAD, HEAD + b'{"client_id":'])
@on_one_engine
async def test_a_client_that_does_not_finish_its_request_is_hung_up_on(running: Running, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(sent)
    await until(running.connected)
    running.server.hang_up_on_the_slow(now=0.0)
    answered = asyncio.create_task(read_to_the_end(reader))

    async def hung_up() -> bool:
        running.server.hang_up_on_the_slow(now=2 * FOREVER)
        return answered.done()

    await until(hung_up)
    assert answered.result() == b""
    writer.close()


@on_one_engine
async def test_a_client_between_two_requests_is_waited_for(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    for now in (0.0, 2 * FOREVER, 4 * FOREVER):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await reader.readuntil(b"}}")
        running.server.hang_up_on_the_slow(now=now)
        assert await running.connected()
    writer.close()


def test_a_port_in_use_is_an_error_of_the_system() -> None:
    listener = listen("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", listener.getsockname()[1])
    listener.close()
