"""The soak's own judgement: a plan that can be repeated, and verdicts that can be missed."""

import pytest
from bench.faults import DISK, FULL, KILL, LONG_FREEZE, POSTGRES, RECEIVER, plan
from bench.fleet import API, SERVER, WORKER
from bench.moody import Arrival
from bench.verdicts import UNEXPLAINED, UNHEARD, Harm, duplicates, in_flight, lost, strangers

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


def test_a_plan_hits_nothing_that_is_not_there() -> None:
    assert not any(each.what == FULL for each in plan(1, 600, ONE | {DISK: 0}))


def test_what_was_accepted_and_never_taken_is_lost() -> None:
    arrivals = [came("taken", 1), came("refused", 1, taken=False), came("unasked", 1)]
    assert lost({"taken", "refused", "never came"}, arrivals) == {"refused", "never came"}
    assert strangers({"taken", "refused"}, arrivals) == {"unasked"}


@pytest.mark.parametrize(
    ("harms", "blamed"),
    [
        ([harm("SIGKILL", 2, "x")], "SIGKILL"),
        ([harm("SIGKILL", 2, "x", pid=B)], UNEXPLAINED),  # it was somebody else who was killed
        ([harm("SIGKILL", 2, "y")], UNEXPLAINED),  # it had been written down by then
        ([harm("SIGKILL", 9, "x")], UNEXPLAINED),  # it came again before that
        ([harm("SIGSTOP", 2, "x", until=4)], "SIGSTOP"),
        ([harm("SIGTERM", 2, until=3)], "SIGTERM"),
        ([harm("SIGTERM", 2, until=3), harm("SIGKILL", 2, "x")], "SIGKILL"),
        ([harm("SIGTERM", 2, until=3, pid=B)], UNEXPLAINED),
        ([], UNEXPLAINED),
    ],
)
def test_what_came_twice_is_blamed_on_what_happened_to_who_had_it_first(harms: list[Harm], blamed: str) -> None:
    arrivals = [came("x", 1), came("x", 5, B), came("once", 1), came("retried", 1, taken=False), came("retried", 5)]
    assert duplicates(arrivals, harms) == {blamed: 1}


def test_what_came_again_because_its_first_answer_was_not_heard_in_time_is_told_apart() -> None:
    arrivals = [came("late", 1), came("late", 20), came("x", 1), came("x", 20)]
    assert duplicates(arrivals, [], {"late"}) == {UNHEARD: 1, UNEXPLAINED: 1}


def test_in_flight_is_what_has_reached_a_receiver_from_the_killed_and_was_not_written_down() -> None:
    arrivals = [came("mine", 1), came("theirs", 1, B), came("written down", 1), came("hanging", 1, taken=False)]
    killed = harm("SIGKILL", 2, "mine", "theirs", "hanging", "not sent yet")
    assert in_flight(arrivals, [killed], KILL) == 2
    assert in_flight(arrivals, [killed], "SIGSTOP") == 0
