"""SIGTERM while there is much to do: a process that is told to stop, at whatever moment, costs no notification, and
none of them comes twice."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Billhook, Running, Server, until
from tests.scenarios.recorder import Recorder
from tests.scenarios.test_faults import Load
from tests.scenarios.test_stop import free_port
from tests.support import on_postgres, on_sqlite

SOME = 40
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@on_sqlite
def test_a_server_that_is_stopped_and_started_under_load_loses_and_repeats_nothing(program: Billhook) -> None:
    port = free_port()
    with Recorder() as recorder:
        ledger = Ledger.of(program)
        client, group = ledger.credentials(), ledger.group(recorder.url())
        server = started(program, "serve", port)
        load = Load(server, client, group)
        with load.running():
            goes_on(load, recorder)
            assert server.stop() == 0
            server = started(program, "serve", port)
            goes_on(load, recorder)
        assert_each_came_once(ledger, load, recorder)
        assert server.stop() == 0


@on_postgres
def test_an_api_process_and_a_worker_that_are_stopped_and_started_under_load_lose_and_repeat_nothing(
    program: Billhook,
) -> None:
    port = free_port()
    with Recorder() as recorder:
        ledger = Ledger.of(program)
        client, group = ledger.credentials(), ledger.group(recorder.url())
        worker, server = program.start("worker"), started(program, "api", port)
        load = Load(server, client, group)
        with load.running():
            goes_on(load, recorder)
            assert worker.stop() == 0
            worker = program.start("worker")
            goes_on(load, recorder)
            assert server.stop() == 0
            server = started(program, "api", port)
            goes_on(load, recorder)
        assert_each_came_once(ledger, load, recorder)
        assert [each.stop() for each in (worker, server)] == [0, 0]


@on_postgres
def test_who_cannot_hear_yet_that_it_shall_stop_has_begun_nothing(program: Billhook) -> None:
    ledger = Ledger.of(program)
    with Recorder() as recorder:
        sent = ledger.queue(recorder.url(), 1)
        with locked(ledger, "users"):  # the last thing that is read before it serves
            server = program.start("serve", "--port", "0")
            until(lambda: waits(server, ledger), what="it has come so far")
            server.stop()
        assert (recorder.ids, ledger.leased(), ledger.pending()) == ([], set(), set(sent))


def started(program: Billhook, command: str, port: int) -> Server:
    return program.ready(program.start(command, "--port", str(port)))


def goes_on(load: Load, recorder: Recorder) -> None:
    """From here on: notifications are accepted, and others arrive."""
    accepted, arrived = len(load.accepted), len(recorder.ids)
    until(
        lambda: len(load.accepted) > accepted + SOME and len(recorder.ids) > arrived + SOME,
        what="it accepts and delivers",
    )


def assert_each_came_once(ledger: Ledger, load: Load, recorder: Recorder) -> None:
    until(lambda: ledger.states() == {"delivered": len(load.accepted)}, what="all are delivered")
    assert sorted(recorder.ids) == sorted(load.accepted)
    assert {row[1] for row in ledger.attempts()} == {1}


@contextmanager
def locked(ledger: Ledger, table: str) -> Iterator[None]:
    """Nobody can read it."""
    with asyncio.Runner() as runner:
        ours = runner.run(asyncpg.connect(ledger.location))
        try:
            runner.run(ours.execute(f"BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
            yield
        finally:
            runner.run(ours.close())


def waits(server: Running, ledger: Ledger) -> bool:
    assert server.process.poll() is None, server.stderr
    return ledger.query(WAITING) == [(1,)]
