"""Phases follow one another and fill the whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.console.timeline import phases
from billhook.outbound.request import Timings

took = st.none() | st.floats(0, 5000)


def test_a_new_connection_has_all_phases() -> None:
    found = phases(Timings(dns=10, connect=20, tls=30, first_byte=80, total=100))
    assert [(each.name, each.took, each.begins, each.share) for each in found] == [
        ("DNS", 10, 0, 10),
        ("Connect", 20, 10, 20),
        ("TLS", 30, 30, 30),
        ("First byte", 20, 60, 20),
        ("Rest of the answer", 20, 80, 20),
    ]


def test_a_connection_that_was_still_open_needs_no_opening() -> None:
    found = phases(Timings(None, None, None, first_byte=4, total=5))
    assert [(each.name, each.took) for each in found] == [("First byte", 4), ("Rest of the answer", 1)]


def test_what_never_got_an_answer_says_so() -> None:
    found = phases(Timings(dns=100, connect=None, tls=None, first_byte=None, total=5100))
    assert [(each.name, each.took) for each in found] == [("DNS", 100), ("Until it failed", 5000)]


@given(dns=took, connect=took, tls=took, first_byte=took, total=st.floats(0, 15_000))
def test_no_phase_leaves_the_picture(
    dns: float | None, connect: float | None, tls: float | None, first_byte: float | None, total: float
) -> None:
    for phase in phases(Timings(dns, connect, tls, first_byte, total)):
        assert 0 <= phase.begins <= 100
        assert 0 <= phase.share <= 100
        assert phase.took >= 0


@pytest.mark.parametrize("total", [0.0, 0.0001])
def test_an_attempt_that_took_no_time_has_phases_all_the_same(total: float) -> None:
    assert phases(Timings(None, None, None, None, total))
