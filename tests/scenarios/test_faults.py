"""Processes are killed, frozen and stopped, and databases restarted, while they deliver: nothing that was accepted is
lost, and nothing is repeated but what was in flight."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import psutil  # type: ignore[import-untyped]

from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Billhook, Running, Server, bearer, end_at_once, installed, until
from tests.scenarios.recorder import Holds, Recorder, everybody
from tests.support import Postgres, on_postgres, on_sqlite

PER_PROVIDER = 10  # requests in flight, over all processes
THREADS = 4
TICKS = 4
LOG_ALL = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET log_statement = ''all''', current_database()); END $$"


def test_a_worker_that_is_killed_loses_nothing_and_repeats_only_what_was_in_flight(
    program: Billhook, ledger: Ledger
) -> None:
    with Recorder(every_second_after(100)) as recorder:
        sent = {*ledger.queue(recorder.url("/one"), 250), *ledger.queue(recorder.url("/two"), 250)}
        killed = program.start("worker")
        until(lambda: len(recorder.held) >= 5, what="some are held, while others come and go")
        held = set(recorder.held)
        kill(killed)
        until(ledger.has_no_visitors, what="all that it had asked of the database is done")
        in_flight, before = ledger.leased(), len(recorder.ids)
        recorder.release()
        ledger.let_leases_lapse()
        following = program.start("worker")
        until(lambda: is_done(ledger, recorder, 500), what="all are delivered")
        assert following.stop() == 0
    assert 100 < before < 500
    assert set(recorder.ids) == sent
    assert len(in_flight) <= 2 * PER_PROVIDER
    assert held <= recorder.repeated <= in_flight
    assert max(Counter(recorder.ids).values()) == 2
    assert [row[1] for row in ledger.attempts()] == [1] * 500, "what nobody lived to write down was no attempt"


def test_the_outcome_of_a_worker_that_stood_still_past_its_lease_is_refused(program: Billhook, ledger: Ledger) -> None:
    with Recorder(holds=lambda number: number == 1) as recorder:
        (sent,) = ledger.queue(recorder.url(), 1)
        frozen = program.start("worker")
        until(lambda: recorder.held == [sent], what="the first has its request in the air")
        until(lambda: freezes_at_rest(frozen, ledger), what="it stands still outside of any transaction")
        ledger.let_leases_lapse()
        other = program.start("worker")
        until(lambda: len(recorder.ids) == 2 and bool(ledger.delivered()), what="the other one delivers it")
        written = ledger.attempts()
        recorder.release()
        frozen.signal(signal.SIGCONT)
        until(lambda: "lease was lost" in frozen.stderr, what="the late outcome is refused")
        assert [each.stop() for each in (frozen, other)] == [0, 0]
    assert recorder.ids == [sent, sent]
    assert [(row[0], row[1], row[3]) for row in written] == [(sent, 1, 200)]
    assert ledger.attempts() == written
    assert ledger.states() == {"delivered": 1}
    assert "lease was lost" not in other.stderr


def test_a_worker_that_is_told_to_stop_finishes_what_is_in_the_air_and_leaves_the_rest(
    program: Billhook, ledger: Ledger
) -> None:
    with Recorder(holds=lambda number: number > 20) as recorder:
        sent = set(ledger.queue(recorder.url(), 100))
        stopped = program.start("worker")
        until(lambda: len(recorder.held) == PER_PROVIDER, what="all places are taken by requests in the air")
        stopped.signal(signal.SIGTERM)
        until(lambda: '"stopping"' in stopped.stderr, what="it has heard that it shall stop")
        recorder.release()
        assert stopped.wait() == 0
        assert (ledger.leased(), ledger.delivered()) == (set(), set(recorder.ids))
        assert len(recorder.ids) == 20 + PER_PROVIDER, "nothing was begun after the signal"
        following = program.start("worker")
        until(lambda: is_done(ledger, recorder, 100), what="the next one delivers the rest")
        assert following.stop() == 0
    assert sorted(recorder.ids) == sorted(sent)
    assert "Traceback" not in stopped.stderr


def test_a_postgresql_that_is_restarted_under_load_costs_nobody_a_notification(
    own_postgres: Any, tmp_path: Path
) -> None:
    location = asyncio.run(Postgres(own_postgres).create_database(name="faults"))
    holds = every_second_after(100)
    with installed(tmp_path, location) as program, Recorder(holds) as recorder:
        program.json("migrate")
        ledger = Ledger.of(program)
        client, group = ledger.credentials(), ledger.group(recorder.url())
        server = program.serve()
        load = Load(server, client, group)
        with load.running():
            until(lambda: len(recorder.held) >= 5, what="some are held, while others come and go")
            held = set(recorder.held)
            end_at_once(own_postgres)
            recorder.release()
            until(lambda: load.refused >= THREADS, what="senders are told that it is away")
            own_postgres.ensure_postgres_running()
            accepted = len(load.accepted)
            until(lambda: len(load.accepted) >= accepted + 100, what="it accepts again")
        until(lambda: ledger.pending() <= ledger.leased(), what="what is left is in flight, or nobody's")
        ledger.let_leases_lapse()  # a claim that was committed while its answer was cut off belongs to nobody
        until(lambda: not ledger.pending(), what="all are delivered")
        assert server.stop() == 0
        assert ledger.delivered() == set(load.accepted)
    assert set(recorder.ids) == set(load.accepted)
    assert len(recorder.ids) - len(set(recorder.ids)) <= PER_PROVIDER
    assert not held & recorder.repeated, "what was answered while it was away is written down when it is back"
    assert "Traceback" not in server.stderr


@on_sqlite
def test_what_was_answered_with_202_is_there_although_the_server_was_killed_at_once(
    program: Billhook, ledger: Ledger
) -> None:
    with Recorder() as recorder:
        client, group = ledger.credentials(), ledger.group(recorder.url())
        server = program.serve()
        load = Load(server, client, group, gives_up=True)
        with load.running():
            until(lambda: len(load.accepted) >= 100, what="some are accepted, and others on their way")
            kill(server)
        accepted, in_flight = set(load.accepted), ledger.leased()
        ledger.let_leases_lapse()
        again = program.serve()
        until(lambda: accepted <= set(recorder.ids) and not ledger.pending(), what="all are delivered")
        assert again.stop() == 0
    assert accepted <= ledger.delivered() == set(recorder.ids)
    assert recorder.repeated <= in_flight


@on_postgres
def test_two_workers_share_the_work_and_keep_the_limit_of_a_provider_together(
    program: Billhook, ledger: Ledger
) -> None:
    with Recorder(holds=everybody) as recorder:
        sent = ledger.queue(recorder.url(), 200)
        # Neither can fill the places of the provider alone, and together they would pass its limit.
        workers = [program.start("worker", BILLHOOK_IN_FLIGHT_PER_PROCESS="6") for _ in range(2)]
        until(lambda: len(recorder.held) == PER_PROVIDER, what="both have requests in the air")
        assert all(4 <= len(connections_of(each, recorder)) <= 6 for each in workers)
        for number in range(30):
            recorder.release_one()
            until(lambda: len(recorder.ids) == PER_PROVIDER + number + 1, what="the next takes its place")  # noqa: B023
        recorder.release()
        until(lambda: is_done(ledger, recorder, 200), what="all are delivered")
        assert [each.stop() for each in workers] == [0, 0]
    assert sorted(recorder.ids) == sorted(sent)
    assert recorder.most == PER_PROVIDER
    assert not any("lease was lost" in each.stderr for each in workers)


@on_postgres
def test_a_worker_that_has_nothing_to_do_asks_the_database_at_most_once_a_second(
    program: Billhook, ledger: Ledger, postgres: Postgres
) -> None:
    """Timers never ring early, so that a busy machine only makes it ask less."""
    ledger.group("http://127.0.0.1:9/")
    ledger.execute(LOG_ALL)
    statements = Statements(postgres)
    worker = program.start("worker")
    until(lambda: any("idempotency_keys" in each for each in statements.seen()), what="it has looked after all")
    began, before = time.monotonic(), statements.seen()
    until(lambda: statements.ticks() >= TICKS + sum(map(is_tick, before)), what="it looks for work now and then")
    asked, elapsed = statements.seen()[len(before) :], time.monotonic() - began
    assert len(asked) <= elapsed + 1, asked
    assert worker.stop() == 0


def every_second_after(first: int) -> Holds:
    """So that some requests are in the air while others come and go."""
    return lambda number: number > first and number % 2 == 0


def is_done(ledger: Ledger, recorder: Recorder, count: int) -> bool:
    """All have arrived, and the database knows; it is not asked before, since that takes time from those who work."""
    return len(set(recorder.ids)) == count and ledger.states() == {"delivered": count}


def kill(running: Running) -> None:
    running.signal(signal.SIGKILL)
    running.wait()


def freezes_at_rest(running: Running, ledger: Ledger) -> bool:
    """Stop it where it stands; not in the middle of a transaction, which would keep the database from the others."""
    running.signal(signal.SIGSTOP)
    process = psutil.Process(running.process.pid)
    until(lambda: bool(process.status() == psutil.STATUS_STOPPED), what="it stands still")
    if ledger.is_at_rest():
        return True
    running.signal(signal.SIGCONT)
    return False


def connections_of(running: Running, recorder: Recorder) -> list[Any]:
    found = psutil.Process(running.process.pid).net_connections(kind="tcp")
    return [each for each in found if each.raddr and each.raddr.port == recorder.port]


class Load:
    """Senders, each with one notification after the other, and with the same key again until it is accepted."""

    def __init__(self, server: Server, client: dict[str, str], group_id: str, *, gives_up: bool = False) -> None:
        self.accepted: list[str] = []  # their deliveries
        self.refused = 0
        self._server, self._path = server, f"/api/v1/groups/{group_id}/notifications"
        self._headers, self._gives_up = bearer(server.token(client)), gives_up
        self._enough = Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(THREADS) as pool:
            senders = [pool.submit(self._send_on) for _ in range(THREADS)]
            try:
                yield
            finally:
                self._enough.set()
            for sender in senders:
                sender.result()

    def _send_on(self) -> None:
        while not self._enough.is_set():
            key = uuid4().hex
            until(lambda: self._send(key) or self._gives_up, what="it is accepted")  # noqa: B023

    def _send(self, key: str) -> bool:
        body = {"title": "Budget", "content": "exceeded"}
        try:
            answer = self._server.http.post(self._path, json=body, headers=self._headers | {"Idempotency-Key": key})
        except httpx.TransportError:
            self.refused += 1
            return False
        if answer.status_code == 503:
            self.refused += 1
            return False
        assert answer.status_code == 202, answer.text
        (delivery,) = answer.json()["data"]["deliveries"]
        self.accepted.append(delivery["id"])
        return True


class Statements:
    """What a PostgreSQL that logs all statements is asked from now on, but for the frames of transactions."""

    def __init__(self, postgres: Postgres) -> None:
        self._log = Path(postgres.server.log)
        self._from = self._log.stat().st_size

    def seen(self) -> list[str]:
        with self._log.open() as log:
            log.seek(self._from)
            logged = [line.partition(" LOG:  ")[2] for line in log]
        asked = [line.partition(": ")[2].strip() for line in logged if line.startswith(("statement:", "execute "))]
        return [each for each in asked if not each.startswith(("BEGIN", "COMMIT", "ROLLBACK", ";"))]

    def ticks(self) -> int:
        return sum(map(is_tick, self.seen()))


def is_tick(statement: str) -> bool:
    """The worker looks for work."""
    return statement.startswith("WITH RECURSIVE")
