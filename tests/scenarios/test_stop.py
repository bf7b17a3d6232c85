"""A clean stop, and starts that are refused: one line that says why, and the right exit status."""

import json
import shutil
import signal
import socket
import sqlite3
from contextlib import closing
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenarios.processes import (
    Billhook,
    Running,
    Server,
    assert_all_refused,
    assert_one_line,
    assert_refused,
    until,
)

SERVE = ("serve", "--port", "0")
STOP_SIGNALS = [signal.SIGTERM, signal.SIGINT]
LESS_THAN_THE_GRACE = 10.0  # seconds; requests in the air get 20


@pytest.fixture(scope="module")
def client(shared_billhook: Billhook) -> dict[str, Any]:
    return shared_billhook.create_client()


@pytest.fixture
def prepared(billhook: Billhook, shared_billhook: Billhook, client: dict[str, Any]) -> Billhook:
    """An installation that has the client: a copy, since a command takes seconds to make one."""
    shutil.copytree(shared_billhook.data_dir, billhook.data_dir)
    return billhook


@pytest.fixture
def server(prepared: Billhook) -> Server:
    return prepared.serve()


@pytest.fixture(params=STOP_SIGNALS)
def stopped(request: pytest.FixtureRequest, server: Server, client: dict[str, Any]) -> tuple[int, HTTPResponse]:
    """Told to stop in the middle of a request: the exit status, and the answer."""
    for _ in range(2):
        server.token(client)
    assert server.post_auth(client | {"client_secret": "wrong"}).status_code == 401
    body = json.dumps({name: client[name] for name in ("client_id", "client_secret")}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as caller:
        begin_request(caller, body)
        caller.sendall(body[:20])
        server.signal(request.param)
        until(lambda: not takes_connections(server.port), what="the server takes no new connections")
        caller.sendall(body[20:])
        answer = HTTPResponse(caller)
        answer.begin()
        return server.wait(), answer


def test_a_stop_lets_the_request_in_the_air_finish_and_writes_what_was_tallied(
    prepared: Billhook, server: Server, stopped: tuple[int, HTTPResponse]
) -> None:
    status, answer = stopped
    assert status == 0
    assert answer.status == 201
    assert json.loads(answer.read())["code"] == "success"
    assert "Traceback" not in server.stderr
    assert_tallies(prepared.database_file, [("issued", "127.0.0.1", 3), ("wrong-secret", "127.0.0.1", 1)])


def test_idle_connections_do_not_delay_the_stop(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)), httpx.Client() as silent_neighbour:
        assert silent_neighbour.get(f"http://127.0.0.1:{server.port}/healthz").status_code == 200
        server.signal(signal.SIGTERM)
        assert server.wait(LESS_THAN_THE_GRACE) == 0


def test_a_port_in_use_is_refused_in_one_line(billhook: Billhook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_refused(billhook.run("serve", "--port", port), port, "in use")


def test_of_two_started_at_once_on_one_port_one_serves_and_one_is_refused(prepared: Billhook) -> None:
    port = free_port()
    both = [prepared.start("serve", "--port", str(port)) for _ in range(2)]
    until(lambda: any(has_ended(running) for running in both), what="one of them gives up")
    refused, serving = sorted(both, key=has_ended, reverse=True)
    assert refused.wait() == 1
    assert_one_line(refused.stderr, str(port), "in use")
    assert prepared.ready(serving).port == port


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BILLHOOK_PORT", "http"),
        ("BILLHOOK_BASE_URL", "ftp://127.0.0.1"),
        ("BILLHOOK_DATABASE_URL", "mysql://user:hunter2@127.0.0.1/billhook"),
        ("BILLHOOK_MASTER_KEY", "too-short"),
    ],
)
def test_an_invalid_setting_is_refused_in_one_line_that_names_it_and_not_its_value(
    billhook: Billhook, name: str, value: str
) -> None:
    done = billhook.run(*SERVE, **{name: value})
    assert_refused(done, name)
    assert value not in done.stderr
    assert "hunter2" not in done.stderr


def test_a_wrong_or_missing_master_key_is_refused_in_one_line(prepared: Billhook) -> None:
    wrong = {"BILLHOOK_MASTER_KEY": "another" * 6}
    assert_all_refused(prepared, SERVE, ("client", "list"), word="master key is not the one", **wrong)
    (prepared.data_dir / "master.key").unlink()
    assert_refused(prepared.run(*SERVE), "master key is missing")


def test_a_database_that_does_not_answer_is_refused_in_one_line(billhook: Billhook) -> None:
    nowhere = f"postgresql://user:hunter2@127.0.0.1:{free_port()}/billhook"
    done = billhook.run("api", "--port", "0", BILLHOOK_DATABASE_URL=nowhere)
    assert_refused(done, "database")
    assert "hunter2" not in done.stderr


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(billhook: Billhook, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_refused(billhook.run(*SERVE, BILLHOOK_DATA_DIR=str(tmp_path / "file" / "data")))


def begin_request(caller: socket.socket, body: bytes) -> None:
    """The head of a request, and the server's word that it has read it and waits for the body."""
    head = "POST /auth HTTP/1.1\r\nHost: billhook\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    caller.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
    assert caller.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"


def takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return int(holder.getsockname()[1])


def has_ended(running: Running) -> bool:
    return running.process.poll() is not None


def assert_tallies(path: Path, expected: list[tuple[str, str, int]]) -> None:
    with closing(sqlite3.connect(path)) as db:
        tallies = db.execute("SELECT outcome, address, sum(count) FROM token_requests GROUP BY 1, 2 ORDER BY 1")
        assert tallies.fetchall() == expected
        for table in ("clients", "client_secrets"):
            ((used_at, address),) = db.execute(f"SELECT last_used_at, last_used_address FROM {table}")  # noqa: S608
            assert used_at is not None
            assert address == "127.0.0.1"
