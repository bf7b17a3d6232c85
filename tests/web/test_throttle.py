"""Moving windows of failures."""

from hypothesis import given
from hypothesis import strategies as st

from billhook.web.throttle import WINDOW_SECONDS, FailureWindow


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


def test_one_that_was_no_failure_is_taken_back() -> None:
    window = FailureWindow(1)
    window.add("key", 5.0)
    window.forget("key", 5.0)
    window.forget("key", 5.0)
    assert window.wait_seconds("key", 6.0) == 0
