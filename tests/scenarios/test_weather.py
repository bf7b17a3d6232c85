"""The database goes away and comes back: what can be answered is answered, and nothing has to be restarted."""

import asyncio
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil  # type: ignore[import-untyped]
import pytest

from tests.scenarios.processes import PATIENCE, Billhook, Server, bearer, billhook_in, end_at_once, problem, until
from tests.support import Postgres

END_OTHER_CONNECTIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'weather' AND pid <> pg_backend_pid()
"""
UNAVAILABLE = (503, "internal/unavailable")


@pytest.fixture
def program(own_postgres: Any, tmp_path: Path) -> Iterator[Billhook]:
    location = asyncio.run(Postgres(own_postgres).create_database(name="weather"))
    key = secrets.token_urlsafe(32)
    with billhook_in(tmp_path, BILLHOOK_DATABASE_URL=location, BILLHOOK_MASTER_KEY=key) as opened:
        opened.json("migrate")
        yield opened


def test_a_database_that_is_gone_is_weathered(own_postgres: Any, program: Billhook) -> None:
    client = program.create_client()
    server = program.serve("api")
    token = server.token(client)
    end_at_once(own_postgres)
    until(lambda: server.http.get("/readyz").status_code == 503, what="not ready")
    assert_alive_but_not_ready(server)
    assert_answers_from_memory(server, client, token)
    assert_says_unavailable(server, client, token)

    own_postgres.ensure_postgres_running()
    assert_recovers(program, server, client, token)
    until(lambda: issued(own_postgres, client) == 4, what="the tallies made meanwhile are written")
    assert server.stop() == 0


def test_a_database_that_is_still_shutting_down_is_weathered_too(own_postgres: Any, program: Billhook) -> None:
    client = program.create_client()
    server = program.serve("api")
    token = server.token(client)
    with shutting_down(own_postgres):
        assert_alive_but_not_ready(server)
        assert_answers_from_memory(server, client, token)
        assert_says_unavailable(server, client, token)
        until(lambda: "change feed" in server.stderr, what="the change feed was asked for", seconds=10)
    own_postgres.ensure_postgres_running()
    assert_recovers(program, server, client, token)


def test_a_database_that_says_nothing_is_weathered_too(own_postgres: Any, program: Billhook) -> None:
    client = program.create_client()
    server = program.serve("api")
    token = server.token(client)
    with frozen(own_postgres):
        assert_alive_but_not_ready(server)
        assert server.accepts(token)
        assert server.stop() == 0


@contextmanager
def frozen(own_postgres: Any) -> Iterator[None]:
    """PostgreSQL with all its processes stopped in the middle of whatever they do: connections stay, answers do not."""
    postmaster = psutil.Process(own_postgres.get_pid())
    family = [postmaster, *postmaster.children(recursive=True)]
    for process in family:
        process.suspend()
    try:
        yield
    finally:
        for process in reversed(family):
            process.resume()


@contextmanager
def shutting_down(own_postgres: Any) -> Iterator[None]:
    """PostgreSQL's smart shutdown: it takes no new connections, and lives until the last one, ours, is closed."""
    process = psutil.Process(own_postgres.get_pid())
    with asyncio.Runner() as runner:
        ours = runner.run(asyncpg.connect(own_postgres.get_uri("weather")))
        try:
            process.send_signal(signal.SIGTERM)
            until(lambda: runner.run(refuses_connections(own_postgres)), what="it takes no new connections")
            runner.run(ours.execute(END_OTHER_CONNECTIONS))
            yield
        finally:
            runner.run(ours.close())
    process.wait(PATIENCE)


async def refuses_connections(own_postgres: Any) -> bool:
    try:
        connection = await asyncpg.connect(own_postgres.get_uri("weather"))
    except asyncpg.CannotConnectNowError:
        return True
    await connection.close()
    return False


def assert_recovers(program: Billhook, server: Server, client: dict[str, Any], token: str) -> None:
    """By itself: it is ready, reads, and follows what others change; and none of it was a bug."""
    until(lambda: server.http.get("/readyz").status_code == 200, what="ready again")
    assert server.http.get("/api/v1/clients", headers=bearer(token)).status_code == 200
    program.json("client", "revoke", client["client_id"])
    until(lambda: not server.accepts(token), what="the change feed is followed again", seconds=10)
    assert "Traceback" not in server.stderr


def assert_alive_but_not_ready(server: Server) -> None:
    assert server.http.get("/healthz").status_code == 200
    ready = server.http.get("/readyz")
    assert (ready.status_code, problem(ready)) == UNAVAILABLE
    assert "database" in ready.json()["message"]


def assert_answers_from_memory(server: Server, client: dict[str, Any], token: str) -> None:
    for _ in range(3):
        assert server.accepts(server.token(client))
    assert server.accepts(token)
    assert server.http.get("/.well-known/jwks.json").status_code == 200


def assert_says_unavailable(server: Server, client: dict[str, Any], token: str) -> None:
    """What needs the database is refused as such, and says when to come again."""
    basic = (client["client_id"], client["client_secret"])
    answers = [
        server.http.get("/api/v1/clients", headers=bearer(token)),
        server.http.post("/api/v1/clients", json={"name": "a", "scope": "clients:read"}, headers=bearer(token)),
        server.http.delete(f"/api/v1/clients/{client['client_id']}", headers=bearer(token)),
        server.http.post("/oauth2/revoke", data={"token": token}, auth=basic),
    ]
    for answer in answers:
        assert (answer.status_code, problem(answer)) == UNAVAILABLE
        assert "retry-after" in answer.headers


def issued(own_postgres: Any, client: dict[str, Any]) -> int:
    async def ask() -> int:
        connection = await asyncpg.connect(own_postgres.get_uri("weather"))
        try:
            query = "SELECT coalesce(sum(count), 0) FROM token_requests WHERE client_id = $1 AND outcome = 'issued'"
            return int(await connection.fetchval(query, client["client_id"]))
        finally:
            await connection.close()

    return asyncio.run(ask())
