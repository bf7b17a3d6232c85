"""Several processes on one database: what one of them ends is over in all of them within a second.

That second is part of the contract, and this is the one place where the tests hold a clock against the service.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenarios.processes import Billhook, Server, assert_all_refused, bearer, billhook_in
from tests.support import Postgres

ONE_SECOND = 1.0
PAUSE = 0.01
USUAL_ANSWER = 0.05  # of a request; what takes longer waited for the processor
BASE_URL = "https://billhook.example.com"  # one name for all processes, as behind a balancer


def ends_within_a_second(counts: Callable[[], bool]) -> None:
    """A request made a second from now, or later, is refused. Time in which the machine stood still is not counted."""
    deadline = time.monotonic() + ONE_SECOND
    asked_at = time.monotonic()
    while counts():
        assert asked_at < deadline, "it still counts after a second"
        time.sleep(PAUSE)
        deadline += max(0.0, time.monotonic() - asked_at - PAUSE - USUAL_ANSWER)
        asked_at = time.monotonic()


@dataclass(frozen=True)
class Pair:
    """Two processes on one PostgreSQL, and a client that may manage clients."""

    program: Billhook
    here: Server
    there: Server
    admin: dict[str, Any]

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """As the administrator, at the first process."""
        token = self.here.token(self.admin)
        answer = self.here.http.request(method, f"/api/v1/clients{path}", json=body, headers=bearer(token))
        assert answer.is_success, answer.text
        data: dict[str, Any] = answer.json()["data"]
        return data

    def create_client(self) -> dict[str, Any]:
        """A client that both processes know."""
        client = self.call("POST", "", {"name": "victim", "scope": "clients:read"})
        token = self.here.token(client)
        ends_within_a_second(lambda: not self.there.accepts(token))
        return client


def on_postgres(folder: Path, postgres: Postgres, **environment: str) -> Any:
    location = asyncio.run(postgres.create_database())
    key = secrets.token_urlsafe(32)
    shared = {"BILLHOOK_DATABASE_URL": location, "BILLHOOK_MASTER_KEY": key, "BILLHOOK_BASE_URL": BASE_URL}
    return billhook_in(folder, **(shared | environment))


@pytest.fixture(scope="module")
def pair(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with on_postgres(tmp_path_factory.mktemp("pair"), postgres, BILLHOOK_TRUSTED_PROXIES="127.0.0.1/32") as program:
        assert program.run("migrate").returncode == 0
        starting = [program.start("api", "--port", "0") for _ in range(2)]
        here, there = (program.ready(running) for running in starting)
        yield Pair(program, here, there, program.create_client())


def test_before_migrate_no_process_starts(postgres: Postgres, tmp_path: Path) -> None:
    with on_postgres(tmp_path, postgres) as program:
        assert_all_refused(program, ("api", "--port", "0"), ("client", "list"), word="run `billhook migrate`")


def test_processes_started_together_agree_on_one_organization_and_one_key(pair: Pair) -> None:
    """The pair was started at the same moment on an empty, migrated database."""
    trail = pair.program.json("audit")
    assert [entry["action"] for entry in trail].count("organization.created") == 1
    assert len(jwks(pair.here)) == 1
    assert jwks(pair.here) == jwks(pair.there)


def test_a_token_of_one_process_counts_in_the_other(pair: Pair) -> None:
    client = pair.create_client()
    assert pair.there.accepts(pair.here.token(client))
    assert pair.here.accepts(pair.there.token(client))


def test_a_revoked_client_is_over_at_once_here_and_within_a_second_there(pair: Pair) -> None:
    client = pair.create_client()
    token = pair.there.token(client)
    pair.call("DELETE", f"/{client['client_id']}")
    assert not pair.here.accepts(token)
    assert not pair.here.issues(client)
    ends_within_a_second(lambda: pair.there.accepts(token))
    assert not pair.there.issues(client)


def test_a_secret_rotated_now_is_over_at_once_here_and_within_a_second_there(pair: Pair) -> None:
    client = pair.create_client()
    token = pair.there.token(client)
    rotated = pair.call("POST", f"/{client['client_id']}/rotate", {"grace": "now"})
    assert not pair.here.issues(client)
    assert pair.here.issues(rotated)
    ends_within_a_second(lambda: pair.there.issues(client))
    assert pair.there.issues(rotated)
    assert pair.there.accepts(token), "rotating a secret does not end the tokens"


def test_a_revoked_secret_is_over_at_once_here_and_within_a_second_there(pair: Pair) -> None:
    client = pair.create_client()
    rotated = pair.call("POST", f"/{client['client_id']}/rotate", {"grace": "24h"})
    assert pair.here.issues(client) and pair.here.issues(rotated), "both are live"
    pair.call("DELETE", f"/{client['client_id']}/secrets/{client['secrets'][0]['id']}")
    assert not pair.here.issues(client)
    ends_within_a_second(lambda: pair.there.issues(client))
    assert pair.there.issues(rotated)


def test_revoked_tokens_are_over_at_once_here_and_within_a_second_there(pair: Pair) -> None:
    client = pair.create_client()
    old = pair.there.token(client)
    pair.call("POST", f"/{client['client_id']}/revoke-tokens")
    assert not pair.here.accepts(old)
    new = pair.here.token(client)
    assert pair.here.accepts(new), "issued after it, also within the same second"
    ends_within_a_second(lambda: pair.there.accepts(old))
    assert pair.there.accepts(new)


def test_a_token_revoked_by_its_owner_is_over_at_once_here_and_within_a_second_there(pair: Pair) -> None:
    client = pair.create_client()
    token, other = pair.there.token(client), pair.there.token(client)
    answer = pair.here.http.post(
        "/oauth2/revoke", data={"token": token}, auth=(client["client_id"], client["client_secret"])
    )
    assert answer.status_code == 200
    assert not pair.here.accepts(token)
    ends_within_a_second(lambda: pair.there.accepts(token))
    assert pair.there.accepts(other), "only that one"


def test_what_the_command_line_ends_is_over_in_every_process(pair: Pair) -> None:
    client = pair.create_client()
    token = pair.here.token(client)
    pair.program.json("client", "revoke", client["client_id"])
    ends_within_a_second(lambda: pair.here.accepts(token) or pair.there.accepts(token))


def test_failures_at_one_process_count_in_the_other(pair: Pair) -> None:
    """A client may fail ten times from an address; nine of them were elsewhere, so it may fail once more here."""
    wrong = {"client_id": pair.create_client()["client_id"], "client_secret": pair.admin["client_secret"]}

    def ask(server: Server) -> int:
        return server.http.post("/auth", json=wrong, headers={"x-forwarded-for": "203.0.113.9"}).status_code

    assert [ask(pair.here) for _ in range(9)] == [401] * 9
    answers: list[int] = []
    while 429 not in answers:
        time.sleep(0.5)  # it is told at most 0.4 s later, and the machine may be slow
        answers.append(ask(pair.there))
        assert len(answers) < 9, "it counts only its own"
    assert answers[0] == 401, "each counts once"


def test_an_emergency_rotation_ends_every_token_and_leaves_only_the_new_key(pair: Pair) -> None:
    client = pair.create_client()
    old_token, old_keys = pair.here.token(client), jwks(pair.here)
    pair.program.json("keys", "rotate", "--emergency")
    ends_within_a_second(lambda: pair.here.accepts(old_token) or pair.there.accepts(old_token))
    (key,) = jwks(pair.here)
    assert [key] == jwks(pair.there)
    assert key not in old_keys
    assert pair.there.accepts(pair.here.token(client))


def test_a_server_on_sqlite_sees_what_the_command_line_changes(billhook: Billhook) -> None:
    client = billhook.create_client()
    server = billhook.serve()
    token = server.token(client)
    rotated = billhook.json("client", "rotate", client["client_id"], "--grace", "now")
    ends_within_a_second(lambda: server.issues(client))
    billhook.json("client", "revoke-tokens", client["client_id"])
    ends_within_a_second(lambda: server.accepts(token))
    token = server.token(rotated)
    billhook.json("client", "revoke", client["client_id"])
    ends_within_a_second(lambda: server.accepts(token))


def jwks(server: Server) -> list[dict[str, Any]]:
    answer: httpx.Response = server.http.get("/.well-known/jwks.json")
    keys: list[dict[str, Any]] = answer.json()["keys"]
    return keys
