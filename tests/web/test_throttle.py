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


def test_what_others_counted_counts_up_to_the_limit() -> None:
    window = FailureWindow(2)
    for now in (0.0, 1.0, 2.0, 3.0):
        window.hear("key", now)
    assert window.moments["key"] == [0.0, 1.0]
    assert window.wait_seconds("key", 3.0) == WINDOW_SECONDS - 3
    assert not window.untold, "what was heard is not told again"


@given(st.lists(st.text(st.characters(), max_size=30), min_size=1, max_size=3))
def test_a_key_is_short_and_has_no_blank_in_it(parts: list[str]) -> None:
    ours, same, others = (FailureWindow(1, secret).key_of for secret in (b"ours", b"ours", b"others"))
    assert len(ours(*parts)) == 20
    assert " " not in ours(*parts)
    assert ours(*parts) == same(*parts)
    assert ours(*parts) not in (others(*parts), ours(*parts, ""))
