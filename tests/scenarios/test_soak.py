"""The soak's own judgement: a plan that can be repeated, and verdicts that can be missed."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import psutil  # type: ignore[import-untyped]
import pytest
from bench.credentials import Credentials
from bench.engines import Engine, Site
from bench.faults import DISK, FULL, LONG_FREEZE, POSTGRES, RECEIVER, Hands, Planned, kinds_of, plan
from bench.fleet import API, SERVER, WORKER, Fleet, Slot
from bench.inquest import SETTLED_SECONDS, Findings, account, calm_since
from bench.moody import Arrival, Moody
from bench.servers import Failed
from bench.steady import CUT_OFF, FOR_A_TOKEN, NO_ANSWER, Load, Plan, Told
from bench.verdicts import (
    FREEZE,
    KILL,
    STOP,
    UNEXPLAINED,
    UNHEARD,
    Harm,
    Late,
    duplicates,
    in_flight,
    lost,
    strangers,
    unheard,
)

from billhook.delivery.chores import SWEEP_SECONDS
from billhook.delivery.queue import LEASE_MS

MANY = {API: 2, WORKER: 3, POSTGRES: 1, RECEIVER: 4}
ONE = {SERVER: 1, RECEIVER: 4, DISK: 1}
A, B = 101, 102  # processes


def came(webhook_id: str, at: float, pid: int = A, *, taken: bool = True) -> Arrival:
    return Arrival(webhook_id, at, taken, pid, skew=0)


def harm(what: str, at: float, *leased: str, pid: int = A, until: float | None = None) -> Harm:
    return Harm(what, pid, at, at if until is None else until, frozenset(leased))


@pytest.mark.parametrize("numbers", [MANY, ONE])
def test_a_plan_follows_from_its_seed_and_ends_in_time(numbers: dict[str, int]) -> None:
    planned = plan(7, 600, numbers)
    assert planned == plan(7, 600, numbers) != plan(8, 600, numbers)
    assert max(each.ends for each in planned) <= 600
    assert not any(a.disturbs(b) for a in planned for b in planned if a is not b)
    assert {each.where for each in planned} == {where for where, count in numbers.items() if count}
    assert any(each.what == LONG_FREEZE and each.seconds > 60 for each in planned)


@pytest.mark.parametrize("numbers", [MANY, ONE])
def test_no_kind_of_fault_comes_again_before_all_others_have(numbers: dict[str, int]) -> None:
    """So that none is rare in a long run, and a short one has them all: with this seed, as the short soak has it."""
    short, long = (Counter((each.where, each.what) for each in plan(1, seconds, numbers)) for seconds in (60, 3600))
    assert short.keys() == {(where, what) for where, what, _ in kinds_of(numbers)}
    del long[WORKER, LONG_FREEZE], long[SERVER, LONG_FREEZE]
    assert max(long.values()) - min(long.values()) <= 1


def test_a_plan_hits_nothing_that_is_not_there() -> None:
    assert not any(each.what == FULL for each in plan(1, 600, ONE | {DISK: 0}))


def test_what_was_accepted_and_never_taken_is_lost() -> None:
    arrivals = [came("taken", 1), came("refused", 1, taken=False), came("unasked", 1)]
    assert lost({"taken", "refused", "never came"}, arrivals) == {"refused", "never came"}
    assert strangers({"taken", "refused"}, arrivals) == {"unasked"}


@pytest.mark.parametrize(
    ("harms", "blamed"),
    [
        ([harm(KILL, 2, "x")], KILL),
        ([harm(KILL, 2, "x", pid=B)], UNEXPLAINED),  # it was somebody else who was killed
        ([harm(KILL, 2, "y")], UNEXPLAINED),  # it had been written down by then
        ([harm(KILL, 9, "x")], UNEXPLAINED),  # it came again before that
        ([harm(FREEZE, 2, "x", until=4)], FREEZE),
        ([harm(STOP, 2, until=3)], STOP),
        ([harm(STOP, 2, until=3), harm(KILL, 2, "x")], KILL),
        ([harm(STOP, 2, until=3, pid=B)], UNEXPLAINED),
        ([], UNEXPLAINED),
    ],
)
def test_what_came_twice_is_blamed_on_what_happened_to_who_had_it_first(harms: list[Harm], blamed: str) -> None:
    arrivals = [came("x", 1), came("x", 5, B), came("once", 1), came("retried", 1, taken=False), came("retried", 5)]
    assert duplicates(arrivals, harms, {}) == {blamed: 1}


def test_what_came_again_because_its_first_answer_was_not_heard_in_time_is_told_apart() -> None:
    arrivals = [came("late", 101), came("late", 120), came("x", 101), came("x", 120)]
    late = {"late": [100.0]}
    assert duplicates(arrivals, [], late) == {UNHEARD: 1, UNEXPLAINED: 1}
    assert unheard(arrivals, late) == 1


@pytest.mark.parametrize("began", [40.0, 80.0, 110.0])  # another attempt: one that ended before, one that came after
def test_a_timeout_excuses_nothing_but_what_came_of_that_very_attempt(began: float) -> None:
    arrivals = [came("x", 101), came("x", 140)]
    assert duplicates(arrivals, [], {"x": [began]}) == {UNEXPLAINED: 1}


def test_a_timeout_excuses_one_duplicate() -> None:
    arrivals = [came("x", 101), came("x", 104), came("x", 108)]
    assert duplicates(arrivals, [], {"x": [100.0]}) == {UNHEARD: 1, UNEXPLAINED: 1}
    assert duplicates(arrivals, [], {"x": [100.0, 103.0]}) == {UNHEARD: 2}


def test_in_flight_is_what_has_reached_a_receiver_from_the_killed_and_was_not_written_down() -> None:
    arrivals = [came("mine", 1), came("theirs", 1, B), came("written down", 1), came("hanging", 1, taken=False)]
    killed = harm(KILL, 2, "mine", "theirs", "hanging", "not sent yet")
    assert in_flight(arrivals, [killed], KILL) == 2
    assert in_flight(arrivals, [killed], FREEZE) == 0


def findings(
    *arrivals: Arrival,
    harms: tuple[Harm, ...] = (),
    late: Late | None = None,
    settled: float = 0.0,
    answers: tuple[str, ...] = (),
) -> Findings:
    told = Told({each.webhook_id for each in arrivals}, Counter(answers))
    hands = Hands(
        Site(Engine("sqlite"), Path(), ""), Fleet([], lambda pids: None), cast(Moody, None), None, harms=list(harms)
    )
    return Findings("sqlite", told, list(arrivals), hands, settled, "", 0, 0, [], late or {})


def missed(found: Findings) -> list[str]:
    return [goal.name.removeprefix("sqlite: ") for goal in account(found).goals if not goal.met]


def test_all_duplicates_together_are_no_more_than_what_was_in_flight_or_unheard() -> None:
    in_all = "duplicates in all, of those in flight and unheard"
    thrice = [came("x", 101), came("x", 110, B), came("x", 120)]
    killed, frozen = harm(KILL, 102, "x"), harm(FREEZE, 111, "x", pid=B, until=115)
    assert in_all in missed(findings(*thrice, harms=(killed,)))
    assert not missed(findings(*thrice, harms=(killed, frozen)))
    assert not missed(findings(*thrice[:2], late={"x": [100.0]}))


def test_a_lapsed_lease_is_met_and_delivered_in_time() -> None:
    assert LEASE_MS / 1000 + SWEEP_SECONDS < SETTLED_SECONDS
    assert not missed(findings(settled=SETTLED_SECONDS))
    assert missed(findings(settled=SETTLED_SECONDS + 1)) == ["seconds from the last fault until nothing is pending"]


def test_it_is_calm_after_the_last_fault_or_where_there_was_none_after_the_load() -> None:
    assert (calm_since(50.0, 60.0), calm_since(None, 60.0)) == (50.0, 60.0)


def test_senders_may_hear_that_there_is_no_database_and_nothing_else_that_is_an_error() -> None:
    assert not missed(findings(answers=("202", "503", f"503{FOR_A_TOKEN}", NO_ANSWER, CUT_OFF)))
    for odd in ("500", "404", f"500{FOR_A_TOKEN}"):
        assert missed(findings(answers=(odd,))) == ["answers that are neither 202 nor 503"]


class Nonsense(BaseHTTPRequestHandler):
    """Says 202 to everything, and of no delivery."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def nonsense() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Nonsense) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_a_load_that_ends_by_itself_fails_the_soak() -> None:
    with nonsense() as port:
        load = Load(Plan((port,), ("group",), Credentials("id", "secret"), rate=50.0))
        with pytest.raises(Failed, match="the load has ended: KeyError"), load.running():
            while not load.told.unanswered:
                load.must_go_on()
                time.sleep(0.01)


def sleeper(folder: Path) -> Slot:
    """A place with a process that does nothing, at work for long."""
    slot = Slot(API, 0, {}, folder / "log")  # one that delivers nothing, so that there is nothing to ask a database
    slot.log.write_bytes(b"")
    slot.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    slot.pids, slot.ready_at = [slot.process.pid], time.monotonic() - 600
    return slot


def hands_on(slot: Slot) -> Hands:
    return Hands(Site(Engine("sqlite"), slot.log.parent, ""), Fleet([slot], lambda pids: None), cast(Any, None), None)


def test_who_has_ended_cannot_be_made_to_stand_still(tmp_path: Path) -> None:
    slot = sleeper(tmp_path)
    try:
        assert slot.stand_still()
    finally:
        slot.end()
    assert not slot.stand_still()


def test_a_zombie_is_not_waited_for(tmp_path: Path) -> None:
    slot = sleeper(tmp_path)
    assert slot.process is not None
    slot.process.kill()  # and not asked for what became of it
    assert not slot.stand_still()


def test_nobody_is_started_when_all_is_over(tmp_path: Path) -> None:
    slot = sleeper(tmp_path)
    fleet = Fleet([slot], lambda pids: None)
    fleet.end()
    fleet.start(slot)
    fleet.revive()
    assert slot.has_ended and len(slot.pids) == 1


def test_a_fault_that_lasts_is_cut_short_when_the_run_is_broken_off(tmp_path: Path) -> None:
    slot = sleeper(tmp_path)
    hands = hands_on(slot)

    def break_off() -> None:
        if psutil.Process(slot.pid).status() == psutil.STATUS_STOPPED:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hands.carry_out([Planned(0.0, API, LONG_FREEZE, seconds=3600.0)], break_off)
    assert slot.has_ended and len(slot.pids) == 1 and not hands.problems


def test_a_fault_that_fails_is_blamed_by_its_own_name(tmp_path: Path) -> None:
    hands = hands_on(slot := sleeper(tmp_path))
    planned = [Planned(0.0, RECEIVER, "hangs"), Planned(0.0, POSTGRES, "fast restart")]
    try:
        with pytest.raises(Failed) as failure:
            hands.carry_out(planned, lambda: None)
    finally:
        slot.end()
    assert all(name in str(failure.value) for name in ("receiver 1: hangs: ", "PostgreSQL 1: fast restart: "))
