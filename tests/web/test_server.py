"""The HTTP server: its patience with slow clients, and how it ends."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest

from billhook.app import App
from billhook.auth.endpoint import TokenEndpoint
from billhook.web.access import Line
from billhook.web.middleware import MOST_TOGETHER
from billhook.web.server import LaneProtocol, Server, listen
from tests.support import on_one_engine, until

HEAD = b"POST /auth HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
FOREVER = 1e9  # seconds: the server's own looks, once a second, must not matter here


@dataclass(frozen=True)
class Running:
    server: Server
    port: int

    async def connected(self) -> bool:
        return len(self.server.server_state.connections) == 1

    def has_connected(self, count: int) -> Callable[[], Awaitable[bool]]:
        async def all_are_here() -> bool:
            return len(self.server.server_state.connections) == count

        return all_are_here

    async def is_receiving(self) -> bool:
        return [type(connection._lane) for connection in self.connections] == [TokenEndpoint]

    async def is_arriving(self) -> bool:
        return [connection.is_arriving for connection in self.connections] == [True]

    async def is_stopping(self) -> bool:
        return [connection._is_stopping for connection in self.connections] == [True]

    async def opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, LaneProtocol]:
        """The only connection, from either side."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await until(self.connected)
        (connection,) = self.connections
        return reader, writer, connection

    @property
    def connections(self) -> list[LaneProtocol]:
        return [each for each in self.server.server_state.connections if isinstance(each, LaneProtocol)]


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    """uvicorn puts back what it found, which in a test is the handler of a loop that has ended meanwhile."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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


def let_wait(app: App, count: int) -> None:
    """So many others ask for a token in this turn of the loop."""
    (lane,) = app.asgi.lanes.values()
    for _ in range(count):
        app.asgi.take_soon(lane, {"method": "POST", "path": "/auth", "headers": []}, b"", reply=lambda _: None)


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


WHOLE = {
    "by the framework": (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b" 200 "),
    "through a lane": (HEAD.replace(b"100", b"2") + b"{}", b" 400 "),
}


@pytest.mark.parametrize(("request_bytes", "status"), WHOLE.values(), ids=WHOLE.keys())
@on_one_engine
async def test_a_client_between_two_requests_is_waited_for(
    running: Running, request_bytes: bytes, status: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    for now in (0.0, 2 * FOREVER, 4 * FOREVER):
        writer.write(request_bytes)
        assert status in await reader.readline()
        await reader.readuntil(b"}")
        running.server.hang_up_on_the_slow(now=now)
        assert await running.connected()
    writer.close()


@on_one_engine
async def test_requests_that_come_together_are_answered_in_their_order(running: Running) -> None:
    ways = [WHOLE["through a lane"], WHOLE["by the framework"], WHOLE["through a lane"], WHOLE["through a lane"]]
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    last = HEAD.replace(b"100\r\n", b"2\r\nConnection: close\r\n") + b"{}"
    writer.write(b"".join(request for request, _ in ways) + last)
    answers = (await read_to_the_end(reader)).split(b"HTTP/1.1")[1:]
    assert [answer[:5] for answer in answers] == [status for _, status in ways] + [b" 400 "]
    assert b"connection: close" in answers[-1]
    writer.close()


@on_one_engine
async def test_a_request_that_is_still_arriving_is_answered_before_the_end(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(HEAD)
    await until(running.is_receiving)
    running.server.should_exit = True
    await until(running.is_stopping)
    writer.write(b"x" * 100)
    answer = await read_to_the_end(reader)
    assert b" 400 " in answer
    assert b"connection: close" in answer
    writer.close()


@on_one_engine
async def test_a_client_that_begins_another_request_and_stops_is_hung_up_on(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(WHOLE["through a lane"][0])
    await reader.readuntil(b"}")
    writer.write(b"G")
    await until(running.is_arriving)
    running.server.hang_up_on_the_slow(now=0.0)
    running.server.hang_up_on_the_slow(now=2 * FOREVER)
    assert await read_to_the_end(reader) == b""
    writer.close()


@pytest.mark.parametrize(
    "garbage", [b"no http\r\n\r\n", b"GET /x HTTP/1.1\r\nX-A: " + b"a" * 1_000_000], ids=["no", "big"]
)
@on_one_engine
async def test_what_is_no_http_is_refused_like_everything_else(running: Running, garbage: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(garbage)
    head, _, body = (await reader.readuntil(b"}")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"x-request-id: " in head
    assert json.loads(body)["code"] == "bad-request/invalid-parameters"
    writer.close()


@on_one_engine
async def test_a_client_that_rests_after_its_answer_is_hung_up_on(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(WHOLE["through a lane"][0])
    await reader.readuntil(b"}")
    (connection,) = running.connections
    for now in (0.0, connection.timeout_keep_alive):
        running.server.hang_up_on_the_slow(now=now)
        assert not connection.transport.is_closing()
    running.server.hang_up_on_the_slow(now=connection.timeout_keep_alive + 1.0)
    assert await read_to_the_end(reader) == b""
    writer.close()


@on_one_engine
async def test_a_client_that_waits_for_the_framework_is_not_hung_up_on(running: Running) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", running.port)
    await until(running.connected)
    (connection,) = running.connections
    connection.data_received(WHOLE["by the framework"][0])  # its task has not begun yet
    for now in (0.0, 2 * FOREVER):
        running.server.hang_up_on_the_slow(now=now)
        assert not connection.transport.is_closing()
    writer.close()


@on_one_engine
async def test_who_asks_in_the_same_moment_gets_his_own_answer(running: Running) -> None:
    """More at once than are served together."""
    bodies = [f'{{"client_id":"c_{number}"}}'.encode() for number in range(2 * MOST_TOGETHER + 1)]
    opened = [await asyncio.open_connection("127.0.0.1", running.port) for _ in bodies]
    await until(running.has_connected(len(bodies)))
    for number, (_, writer) in enumerate(opened):
        head = HEAD.replace(b"100\r\n", b"%d\r\nX-Request-Id: number-%04d\r\n" % (len(bodies[number]), number))
        writer.write(head + bodies[number])
    for number, (reader, writer) in enumerate(opened):
        answer = await reader.readuntil(b"}")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"x-request-id: number-%04d\r\n" % number in answer
        writer.close()


@on_one_engine
async def test_what_is_no_http_is_refused_after_the_answer_to_what_came_before_it(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(WHOLE["through a lane"][0] + b"no http\r\n\r\n")
    first, second = (await read_to_the_end(reader)).split(b"HTTP/1.1")[1:]
    assert b"client_id" in first
    assert b"connection: close" in second
    writer.close()


@on_one_engine
async def test_answers_keep_their_order_also_when_many_wait_before_them(running: Running, app: App) -> None:
    reader, writer, connection = await running.opened()
    let_wait(app, MOST_TOGETHER)
    connection.data_received(WHOLE["through a lane"][0] + WHOLE["by the framework"][0])
    assert b" 400 " in await reader.readline()
    await reader.readuntil(b"}")
    assert b" 200 " in await reader.readline()
    writer.close()


@pytest.mark.parametrize("before", [0, MOST_TOGETHER])
@on_one_engine
async def test_a_client_that_says_nothing_more_gets_its_answer(running: Running, app: App, before: int) -> None:
    reader, writer, connection = await running.opened()
    let_wait(app, before)
    connection.data_received(WHOLE["through a lane"][0])
    connection.eof_received()
    connection.transport.close()  # as the loop does then
    assert b"client_id" in await read_to_the_end(reader)
    writer.close()


@on_one_engine
async def test_a_client_that_has_gone_leaves_the_others_their_answers(running: Running) -> None:
    _, gone = await asyncio.open_connection("127.0.0.1", running.port)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    await until(running.has_connected(2))
    for connection in running.connections:
        connection.data_received(WHOLE["through a lane"][0])
        if connection.client == gone.get_extra_info("sockname"):
            connection.transport.close()
    assert b" 400 " in await reader.readline()
    gone.close()
    writer.close()


@on_one_engine
async def test_an_answer_that_is_due_is_given_before_the_end(running: Running) -> None:
    reader, writer, connection = await running.opened()
    connection.data_received(WHOLE["through a lane"][0])
    connection.shutdown()
    answer = await read_to_the_end(reader)
    assert b"client_id" in answer
    assert b"connection: close" in answer
    writer.close()


@on_one_engine
async def test_who_sends_the_next_request_before_the_answer_has_one_waiting_at_most(running: Running, app: App) -> None:
    reader, writer, connection = await running.opened()
    for _ in range(3):
        connection.data_received(WHOLE["through a lane"][0])
        assert len(app.asgi._waiting) <= 1
    for _ in range(3):
        assert b" 400 " in await reader.readline()
        await reader.readuntil(b"}")
    writer.close()


@on_one_engine
async def test_a_bug_in_the_log_costs_nobody_the_answer(
    running: Running, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_line: Line) -> None:
        raise RuntimeError("no more paper")

    monkeypatch.setattr(app.asgi.access, "note", fail)
    for _ in range(2):
        opened = [await asyncio.open_connection("127.0.0.1", running.port) for _ in range(3)]
        for _, writer in opened:
            writer.write(WHOLE["through a lane"][0])
        for reader, writer in opened:
            assert b" 400 " in await reader.readline()
            writer.close()


EARLY = b"POST /api/v1/clients HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.parametrize(
    "sent", [(EARLY, b"0123456789"), (WHOLE["by the framework"][0], b"\r\n")], ids=["body", "line"]
)
@on_one_engine
async def test_a_client_that_says_more_after_its_answer_is_hung_up_on_all_the_same(
    running: Running, sent: tuple[bytes, bytes]
) -> None:
    """uvicorn forgets its own timer by that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(sent[0])
    await reader.readuntil(b"}")
    (connection,) = running.connections
    connection.data_received(sent[1])
    for now in (0.0, connection.timeout_keep_alive + 1.0):
        running.server.hang_up_on_the_slow(now=now)
    assert b"HTTP" not in await read_to_the_end(reader)
    writer.close()


@on_one_engine
async def test_who_does_not_read_its_last_answer_is_cut_off_in_the_end(running: Running) -> None:
    reader, writer, connection = await running.opened()
    connection.transport.write(b"x" * 50_000_000)  # more than the system takes for somebody who does not read
    for now in (0.0, 2 * FOREVER, 2 * FOREVER + 1.0):
        running.server.hang_up_on_the_slow(now=now)

    async def is_gone() -> bool:
        return running.connections == []

    await until(is_gone)
    writer.close()


def test_a_port_in_use_is_an_error_of_the_system() -> None:
    listener = listen("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", listener.getsockname()[1])
    listener.close()


@on_one_engine
async def test_who_delivers_is_told_to_stop_with_the_signal_and_not_after_the_last_answer(app: App) -> None:
    told: list[str] = []
    server = Server(app.asgi, when_told_to_stop=lambda: told.append("stop"))
    server.handle_exit(15, None)
    assert (told, server.should_exit, server.force_exit) == (["stop"], True, False)
