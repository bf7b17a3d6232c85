"""Two API hosts, three workers, PostgreSQL and receivers, each on an address of its own: one system, also while a host
is cut off from the others, and when it is back."""

import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.scenarios.hosts import INSIDE, NETWORKS, OUTSIDE, From, Host, hub, postgres_on, why_there_are_none
from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import PATIENCE, Running, Server, bearer, billhook_in, problem, until
from tests.scenarios.recorder import Holds, Recorder, nobody

PORT = "8080"  # the same on every host
LAPSE_PATIENCE = 180.0  # a lease lasts for 60 s, and is met within another 10
DATABASE = "billhook"


@pytest.fixture(scope="module", autouse=True)
def hosts_can_be_made() -> None:
    if reason := why_there_are_none():
        pytest.skip(reason)


@dataclass(frozen=True)
class Machine:
    """A host and the process on it."""

    host: Host
    running: Running


@dataclass(frozen=True)
class ApiMachine:
    host: Host
    running: Server


@dataclass(frozen=True)
class Deployment:
    """Everything running, and a client that may do everything."""

    ledger: Ledger
    apis: list[ApiMachine]
    workers: list[Machine]
    receivers: Host
    client: dict[str, str]

    @contextmanager
    def receiver(self, holds: Holds = nobody) -> Iterator[Recorder]:
        with Recorder(holds, host=self.receivers.address, enter=self.receivers.enter) as recorder:
            yield recorder

    def send(self, api: ApiMachine, group: str) -> httpx.Response:
        headers = bearer(api.running.token(self.client)) | {"Idempotency-Key": uuid4().hex}
        path, body = f"/api/v1/groups/{group}/notifications", {"title": "Budget", "content": "exceeded"}
        return api.running.http.post(path, json=body, headers=headers)

    def accept(self, api: ApiMachine, group: str) -> str:
        """The id of its delivery."""
        answer = self.send(api, group)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["data"]["deliveries"][0]["id"])


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("hosts")
    with ExitStack() as stack:
        wires = stack.enter_context(hub())
        database, receivers = wires.host("db", inside=10), wires.host("hooks", inside=20)
        caller = wires.host("caller", outside=100)
        apis = [wires.host(f"api{number}", inside=30 + number, outside=30 + number) for number in (1, 2)]
        workers = [wires.host(f"work{number}", inside=40 + number) for number in (1, 2, 3)]
        location = stack.enter_context(postgres_on(database, DATABASE))
        environment = {
            "BILLHOOK_DATABASE_URL": f"postgresql://postgres@{database.address}/{DATABASE}",
            "BILLHOOK_MASTER_KEY": secrets.token_urlsafe(32),
            "BILLHOOK_BASE_URL": "https://billhook.example.com",
            "BILLHOOK_OUTBOUND_ALLOW": f"{NETWORKS[INSIDE]}.0/24",
        }
        local = stack.enter_context(billhook_in(folder / "local", **environment | {"BILLHOOK_DATABASE_URL": location}))
        until(lambda: local.run("migrate").returncode == 0, what="PostgreSQL answers and is migrated")
        ledger = Ledger.of(local)
        client = ledger.credentials()

        def on(host: Host, *arguments: str) -> Running:
            command = host.command(sys.executable, "-m", "billhook")
            program = stack.enter_context(billhook_in(folder / host.namespace, command, **environment))
            return program.start(*arguments)

        at_work = [Machine(host, on(host, "worker")) for host in workers]
        serving = [(host, on(host, "api", "--host", "0.0.0.0", "--port", PORT)) for host in apis]
        called = [ApiMachine(host, stack.enter_context(ready(running, host, caller))) for host, running in serving]
        yield Deployment(ledger, called, at_work, receivers, client)


@contextmanager
def ready(running: Running, host: Host, caller: Host) -> Iterator[Server]:
    """The process as somebody outside calls it."""
    url = f"http://{host.links[OUTSIDE][1]}:{PORT}"
    with httpx.Client(base_url=url, timeout=PATIENCE, transport=From(caller)) as http:
        server = Server(running.process, running.stdout_file, running.stderr_file, int(PORT), http)
        until(lambda: is_ready(server), what="the server is ready")
        yield server


def is_ready(server: Server) -> bool:
    assert server.process.poll() is None, server.stderr
    try:
        return server.http.get("/readyz").status_code == 200
    except httpx.ConnectError:
        return False


def test_all_hosts_are_one_system(deployment: Deployment) -> None:
    one, other = deployment.apis
    made = one.running.http.post(
        "/api/v1/clients",
        json={"name": "victim", "scope": "clients:read"},
        headers=bearer(one.running.token(deployment.client)),
    ).json()["data"]
    token = one.running.token(made)
    until(lambda: other.running.accepts(token), what="the other API host knows the client")
    assert other.running.issues(made)
    gone = bearer(other.running.token(deployment.client))
    assert other.running.http.delete(f"/api/v1/clients/{made['client_id']}", headers=gone).status_code == 200
    until(lambda: not one.running.accepts(token), what="it is over at the first as well")
    assert not one.running.issues(made)


def test_what_both_api_hosts_accept_is_delivered_once_by_all_three_workers(deployment: Deployment) -> None:
    sent: list[str] = []
    with deployment.receiver() as recorder:
        group = deployment.ledger.group(recorder.url())

        def all_take_part() -> bool:
            sent.extend(deployment.accept(api, group) for api in deployment.apis)
            return set(recorder.peers) == {worker.host.address for worker in deployment.workers}

        until(all_take_part, what="every worker has delivered")
        until(lambda: set(sent) <= deployment.ledger.delivered(), what="all are delivered")
    assert sorted(recorder.ids) == sorted(sent)


def test_a_worker_host_that_is_cut_off_loses_its_lease_and_its_late_outcome_is_refused(deployment: Deployment) -> None:
    ledger, api = deployment.ledger, deployment.apis[0]
    with deployment.receiver(holds=lambda number: number == 1) as recorder:
        group = ledger.group(recorder.url("/cut"))
        sent = deployment.accept(api, group)
        until(lambda: recorder.held == [sent], what="one worker has its request in the air")
        (lost,) = (worker for worker in deployment.workers if worker.host.address == recorder.peers[0])
        lost.host.cut()
        until(lambda: sent in ledger.delivered(), what="its lease lapses, another one delivers", seconds=LAPSE_PATIENCE)
        assert recorder.peers[-1] != lost.host.address
        written = [row for row in ledger.attempts() if row[0] == sent]
        until(lambda: "trying again" in lost.running.stderr, what="it cannot reach PostgreSQL")
        lost.host.mend()
        until(lambda: "lease was lost" in lost.running.stderr, what="its late outcome is refused")
        assert [row for row in ledger.attempts() if row[0] == sent] == written
        assert [(row[1], row[3]) for row in written] == [(1, 200)]

        def is_back() -> bool:
            deployment.accept(api, group)
            return lost.host.address in recorder.peers[2:]

        until(is_back, what="it delivers again")
    assert recorder.ids[:2] == [sent, sent]
    assert not any("lease was lost" in worker.running.stderr for worker in deployment.workers if worker is not lost)


def test_an_api_host_that_is_cut_off_from_postgresql_says_so_and_recovers_by_itself(deployment: Deployment) -> None:
    cut, other = deployment.apis
    with deployment.receiver() as recorder:
        group = deployment.ledger.group(recorder.url("/api"))
        sent = [deployment.accept(cut, group)]
        cut.host.cut(INSIDE)
        refused = deployment.send(cut, group)
        assert (refused.status_code, problem(refused)) == (503, "internal/unavailable")
        red = cut.running.http.get("/readyz")
        assert (red.status_code, red.json()["message"]) == (503, "the database does not answer")
        sent.append(deployment.accept(other, group))
        cut.host.mend(INSIDE)
        until(lambda: is_ready(cut.running), what="it is ready again")
        sent.append(deployment.accept(cut, group))
        until(lambda: set(sent) <= deployment.ledger.delivered(), what="all are delivered")
    assert set(sent) <= set(recorder.ids)
    assert "Traceback" not in cut.running.stderr


def test_nothing_is_left_of_hosts_that_are_gone() -> None:
    with hub() as wires:
        host = wires.host("brief", inside=1)
        assert {wires.name, host.namespace} <= namespaces()
    assert not {wires.name, host.namespace} & namespaces()


def namespaces() -> set[str]:
    return {each.name for each in Path("/run/netns").iterdir()}
