"""How often somebody may fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.auth import throttle
from billhook.auth.throttle import FAILURES_PER_ADDRESS, FAILURES_PER_PAIR, WINDOW_SECONDS, FailureWindow, Throttle


def test_ten_failures_of_one_client_from_one_address_are_allowed_in_five_minutes() -> None:
    limits = Throttle()
    waits = [limits.fail("192.0.2.1", "x", now=float(second)) for second in range(FAILURES_PER_PAIR + 1)]
    assert waits[:-1] == [0.0] * FAILURES_PER_PAIR
    assert waits[-1] == WINDOW_SECONDS - FAILURES_PER_PAIR
    assert limits.fail("192.0.2.1", "x", now=WINDOW_SECONDS) == 0
    assert limits.fail("192.0.2.2", "x", now=float(FAILURES_PER_PAIR)) == 0


def test_thirty_failures_of_one_address_are_allowed_in_five_minutes() -> None:
    limits = Throttle()
    waits = [limits.fail("192.0.2.1", f"client {n}", now=0.0) for n in range(FAILURES_PER_ADDRESS + 1)]
    assert waits == [0.0] * FAILURES_PER_ADDRESS + [WINDOW_SECONDS]


def test_an_ipv6_neighbourhood_counts_as_one_address() -> None:
    limits = Throttle()
    for number in range(FAILURES_PER_PAIR):
        limits.fail(f"2001:db8::{number:x}", "x", now=0.0)
    assert limits.fail("2001:db8::ffff", "x", now=0.0) > 0
    assert limits.fail("2001:db8:0:1::1", "x", now=0.0) == 0


@given(moments=st.lists(st.integers(0, 2000).map(float), max_size=80).map(sorted), limit=st.integers(1, 20))
def test_no_window_ever_holds_more_than_its_limit(moments: list[float], limit: int) -> None:
    window, allowed = FailureWindow(limit), []
    for now in moments:
        if window.wait_seconds("key", now) == 0:
            window.add("key", now)
            allowed.append(now)
    for start in allowed:
        assert sum(start <= moment < start + WINDOW_SECONDS for moment in allowed) <= limit


@given(moments=st.lists(st.floats(min_value=0, max_value=250), min_size=1, max_size=40).map(sorted))
def test_after_the_wait_it_said_a_failure_fits_again(moments: list[float]) -> None:
    window = FailureWindow(3)
    for now in moments:
        if window.wait_seconds("key", now) == 0:
            window.add("key", now)
    wait = window.wait_seconds("key", moments[-1])
    assert window.wait_seconds("key", moments[-1] + wait + 0.001) == 0


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MOST_KEYS", 10)
    limits = Throttle()
    for number in range(100):
        limits.fail(f"192.0.2.{number}", "x", now=0.0)
    assert len(limits.pairs.moments) == len(limits.addresses.moments) == 10


def test_a_long_client_id_is_not_kept() -> None:
    limits = Throttle()
    limits.fail("192.0.2.1", "x" * 8000, now=0.0)
    assert len(repr(list(limits.pairs.moments))) < 200
