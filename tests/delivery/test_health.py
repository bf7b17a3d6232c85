"""How a provider is doing: the breaker, its waits, and the end after days of failures only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.delivery.health import (
    NOTED_EVERY_MS,
    OPENS_AT,
    WINDOW_MS,
    Memory,
    Window,
    failed,
    is_given_up,
    is_worth_noting,
    may_start,
    starts_again_ms,
    succeeded,
    waiting,
)
from billhook.groups.model import Health
from billhook.groups.store import NOTHING

START = 1_780_000_000_000
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
LONGEST = 15 * MINUTE
MOST = 10

# What happens to a provider: how long after the event before, and whether it went well.
EVENTS = st.lists(st.tuples(st.integers(0, 20 * MINUTE), st.booleans()), max_size=60)


def failing(count: int, health: Health | None = None, *, now: int = START) -> Health:
    health = health or Health()
    for _ in range(count):
        health = failed(health, now)
    return health


def probed(openings: int) -> tuple[Health, int]:
    """A breaker that has opened so often because every probe failed, and when it last did."""
    health, now = failing(OPENS_AT), START
    for _ in range(openings - 1):
        now = health.open_until_ms
        health = failed(health, now)
    return health, now


def open_for(health: Health, now: int) -> int:
    return health.open_until_ms - now


@pytest.mark.parametrize("failures", range(OPENS_AT))
def test_fewer_than_five_failures_leave_it_closed(failures: int) -> None:
    assert may_start(failing(failures), START, most=MOST) == MOST


def test_the_fifth_failure_in_a_row_opens_it_for_half_a_minute() -> None:
    health = failing(5)
    assert open_for(health, START) == 30 * SECOND
    assert may_start(health, START, most=MOST) == 0
    assert may_start(health, START + 30 * SECOND - 1, most=MOST) == 0


def test_after_that_one_probe_may_start() -> None:
    assert may_start(failing(5), START + 30 * SECOND, most=MOST) == 1


@pytest.mark.parametrize(
    ("openings", "seconds"), [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 900), (7, 900), (60, 900)]
)
def test_every_failed_probe_doubles_the_wait_up_to_a_quarter_of_an_hour(openings: int, seconds: int) -> None:
    assert open_for(*probed(openings)) == seconds * SECOND


def test_a_success_closes_it_as_if_it_had_never_failed() -> None:
    health, now = probed(4)
    well = succeeded(health, now + LONGEST)
    assert well == Health(last_success_ms=now + LONGEST, last_failure_ms=now)
    assert may_start(well, now + LONGEST, most=MOST) == MOST
    assert open_for(failing(5, well, now=now + LONGEST), now + LONGEST) == 30 * SECOND


@given(count=st.integers(1, 50), passed=st.lists(st.integers(0, 30 * SECOND - 1), max_size=50))
def test_failures_that_were_in_the_air_do_not_open_it_further(count: int, passed: list[int]) -> None:
    opened = failing(5)
    later = opened
    for moment in sorted(passed):
        later = failed(later, START + moment, mostly_failing=True)
    assert (later.openings, later.open_until_ms) == (opened.openings, opened.open_until_ms)
    assert later.failures == 5 + len(passed)


def test_a_success_that_was_in_the_air_closes_it_unless_half_have_failed() -> None:
    assert may_start(succeeded(failing(5), START + SECOND), START + SECOND, most=MOST) == MOST
    still = succeeded(failing(5), START + SECOND, mostly_failing=True)
    assert may_start(still, START + SECOND, most=MOST) == 0
    assert (still.failures, still.failing_since_ms, still.last_success_ms) == (0, None, START + SECOND)
    probed = succeeded(still, still.open_until_ms, mostly_failing=True)
    assert may_start(probed, still.open_until_ms, most=MOST) == MOST


def test_a_minute_of_mostly_failures_opens_it_without_five_in_a_row() -> None:
    assert may_start(failed(Health(), START, mostly_failing=True), START, most=MOST) == 0


@given(events=EVENTS)
def test_whatever_happens_the_breaker_keeps_its_rules(events: list[tuple[int, bool]]) -> None:
    health, now, in_a_row = Health(), START, 0
    for passed, ok in events:
        before, now = health, now + passed
        was_open, was_probing = before.open_until_ms > now, before.openings > 0
        health = succeeded(before, now) if ok else failed(before, now)
        in_a_row = 0 if ok else in_a_row + 1
        assert health.failures == in_a_row
        assert open_for(health, now) <= LONGEST
        opened = health.openings - before.openings
        if ok:
            assert (health.openings, health.open_until_ms) == (0, 0)
        elif was_open:
            assert opened == 0
        else:
            assert opened == (1 if was_probing or in_a_row >= OPENS_AT else 0)
        assert may_start(health, now, most=MOST) in ({0} if health.open_until_ms > now else {1, MOST})
        assert may_start(health, starts_again_ms(health), most=MOST) == (1 if health.openings else MOST)


@given(events=EVENTS)
def test_an_opening_is_never_shorter_than_the_one_before(events: list[tuple[int, bool]]) -> None:
    health, now, longest = Health(), START, 0
    for passed, ok in events:
        before, now = health, now + passed
        health = succeeded(before, now) if ok else failed(before, now)
        if ok:
            longest = 0
        elif health.openings > before.openings:
            assert open_for(health, now) >= max(longest, 30 * SECOND)
            longest = open_for(health, now)


@given(events=EVENTS)
def test_it_is_given_up_only_after_three_days_and_ten_attempts_without_a_success(
    events: list[tuple[int, bool]],
) -> None:
    health, now, since, attempts = Health(), START, None, 0
    for passed, ok in ((passed * 20, ok) for passed, ok in events):
        now += passed
        health = succeeded(health, now) if ok else failed(health, now)
        since = None if ok else now if since is None else since
        attempts = 0 if ok else attempts + 1
        assert is_given_up(health, now) == (since is not None and now - since >= 72 * HOUR and attempts >= 10)


@pytest.mark.parametrize(
    ("attempts", "hours", "given_up"),
    [(9, 72, False), (10, 72, True), (10, 71.99, False), (10_000, 1, False), (9, 10_000, False), (10, 1000, True)],
)
def test_both_the_time_and_the_attempts_are_needed(attempts: int, hours: float, given_up: bool) -> None:
    assert is_given_up(failing(attempts), START + int(hours * HOUR)) is given_up


def test_one_success_begins_the_three_days_anew() -> None:
    health = succeeded(failing(100), START + 71 * HOUR)
    assert not is_given_up(health, START + 100 * HOUR)
    again = failing(100, health, now=START + 72 * HOUR)
    assert not is_given_up(again, START + 143 * HOUR)
    assert is_given_up(again, START + 144 * HOUR)


def test_nothing_starts_while_the_receiver_asked_to_wait() -> None:
    health = waiting(Health(), START + HOUR)
    assert may_start(health, START + HOUR - 1, most=MOST) == 0
    assert may_start(health, START + HOUR, most=MOST) == MOST
    assert starts_again_ms(health) == START + HOUR


@given(waits=st.lists(st.integers(START, START + 24 * HOUR), min_size=1))
def test_the_longest_wait_that_was_asked_for_counts(waits: list[int]) -> None:
    health = Health()
    for until_ms in waits:
        health = waiting(health, until_ms)
    assert health == Health(waits_until_ms=max(waits))


@given(open_until=st.integers(START, START + LONGEST), waits_until=st.integers(START, START + HOUR))
def test_it_starts_again_when_breaker_and_wait_are_both_over(open_until: int, waits_until: int) -> None:
    health = Health(openings=1, open_until_ms=open_until, waits_until_ms=waits_until)
    moment = starts_again_ms(health)
    assert may_start(health, moment - 1, most=MOST) == 0
    assert may_start(health, moment, most=MOST) == 1


def test_a_success_does_not_end_a_wait_that_was_asked_for() -> None:
    assert succeeded(waiting(Health(), START + HOUR), START).waits_until_ms == START + HOUR


WELL = Health(last_success_ms=START)


@pytest.mark.parametrize(
    ("health", "passed", "worth"),
    [
        (WELL, 0, False),
        (WELL, NOTED_EVERY_MS, False),
        (WELL, NOTED_EVERY_MS + 1, True),
        (Health(), 0, True),
        (WELL._replace(failures=1), 0, True),
        (WELL._replace(openings=1), 0, True),
        (WELL._replace(failing_since_ms=START), 0, True),
        (WELL._replace(last_failure_ms=START), MINUTE - 1, True),
        (WELL._replace(last_failure_ms=START, last_success_ms=START + MINUTE), MINUTE, False),
    ],
)
def test_a_success_is_noted_when_it_is_news(health: Health, passed: int, worth: bool) -> None:
    assert is_worth_noting(health, START + passed, noted_ms=0) is worth


def test_a_success_is_no_news_to_a_process_that_has_just_noted_one() -> None:
    """What was claimed before it was noted comes back with the health of then."""
    assert not is_worth_noting(Health(), START, noted_ms=START - NOTED_EVERY_MS)
    assert is_worth_noting(Health(), START, noted_ms=START - NOTED_EVERY_MS - 1)
    assert is_worth_noting(WELL._replace(failures=1), START, noted_ms=START)


def window_of(*outcomes: tuple[int, bool]) -> Window:
    window = Window()
    for moment, ok in outcomes:
        window.add(moment, ok=ok)
    return window


@pytest.mark.parametrize(
    ("failures", "successes", "mostly"),
    [(19, 0, False), (20, 0, True), (10, 10, True), (9, 11, False), (10, 9, False), (50, 51, False), (51, 51, True)],
)
def test_half_of_at_least_twenty_is_mostly(failures: int, successes: int, mostly: bool) -> None:
    outcomes = [(START, False)] * failures + [(START + 1, True)] * successes
    assert window_of(*outcomes).is_mostly_failing() is mostly


def test_what_is_older_than_a_minute_does_not_count() -> None:
    failures = [(START, False)] * 20
    assert window_of(*failures, (START + 59 * SECOND, True)).is_mostly_failing()
    assert not window_of(*failures, (START + 60 * SECOND, True)).is_mostly_failing()


@given(events=st.lists(st.tuples(st.integers(0, 5 * SECOND), st.booleans()), min_size=1, max_size=150))
def test_the_window_says_what_a_plain_count_of_the_last_minute_says(events: list[tuple[int, bool]]) -> None:
    window, now, seen = Window(), START, list[tuple[int, bool]]()
    for passed, ok in events:
        now += passed
        window.add(now, ok=ok)
        seen.append((now // SECOND, ok))
        recent = [ok for second, ok in seen if second * SECOND > now - MINUTE]
        mostly = len(recent) >= 20 and recent.count(False) * 2 >= len(recent)
        assert window.is_mostly_failing() is mostly
    assert len(window.seconds) <= 61


def test_seconds_that_are_to_come_are_forgotten_when_a_clock_was_set_back() -> None:
    window = window_of(*[(START + HOUR, False)] * 20)
    window.add(START, ok=True)
    assert not window.is_mostly_failing()
    assert not is_worth_noting(WELL._replace(last_failure_ms=START + HOUR), START)


@given(events=st.lists(st.tuples(st.integers(0, 5 * SECOND), st.booleans(), st.booleans()), max_size=80))
def test_two_workers_that_tell_what_they_saw_have_one_window(events: list[tuple[int, bool, bool]]) -> None:
    """By way of what is stored: as if one of them had seen it all."""
    both, stored, now = Window(), NOTHING, START
    untold = {True: Window(), False: Window()}
    for passed, ok, who in events:
        now += passed
        both.add(now, ok=ok)
        untold[who].add(now, ok=ok)
        merged = Window.read(stored)
        merged.merge(untold[who])
        merged.forget(now)
        both.forget(now)
        stored, untold[who] = merged.written(), Window()
        assert merged.is_mostly_failing() is both.is_mostly_failing()
        assert merged.seconds == both.seconds


def test_an_empty_window_is_stored_as_a_row_begins() -> None:
    assert (Window().written(), Window.read(NOTHING)) == (NOTHING, Window())


def test_what_a_worker_remembers_is_old_after_a_minute_without_anything() -> None:
    memory = Memory(window_of((START, True)), noted_ms=START, failed_ms=START)
    assert not memory.is_old(START + WINDOW_MS - 1)
    assert memory.is_old(START + WINDOW_MS)
    assert Memory().is_old(START)
