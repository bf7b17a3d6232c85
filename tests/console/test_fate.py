"""Every state of a delivery says what happened and what happens next."""

from types import SimpleNamespace
from typing import Any

import pytest

from billhook.console.fate import BADGES, Fate, fate_of, next_ms
from billhook.delivery.holding import HELD_MS
from billhook.delivery.store import State

NOW_MS = 1_000_000_000


def told(provider: dict[str, Any] | None = None, **delivery: Any) -> Fate:
    """Of a delivery like this to a provider like that."""
    common = {"state": "pending", "attempts": 0, "status": None, "error": None, "lease": None}
    moments = {"due_ms": NOW_MS + 5000, "since_ms": NOW_MS}
    well = {"state": "active", "state_reason": None, "failures": 0, "open_until_ms": 0, "waits_until_ms": 0}
    row: Any = SimpleNamespace(**{**common, **moments, **delivery})
    owner: Any = SimpleNamespace(**{**well, **(provider or {})})
    return fate_of(row, owner, now_ms=NOW_MS)


def test_every_state_has_a_badge_and_a_sentence() -> None:
    assert set(BADGES) == set(State)
    assert all(told(state=state).text.endswith(".") for state in State)


def test_a_new_one_waits_for_its_first_attempt() -> None:
    assert told() == Fate("Waits for its first attempt.", next_ms=NOW_MS + 5000)


def test_one_that_was_redelivered_waits_again() -> None:
    assert told(attempts=3).text == "Waits to be delivered again."


def test_a_failed_attempt_says_why_and_when_the_next_one_is() -> None:
    fate = told(attempts=2, status=500)
    assert fate.text == "Attempt 2 failed. It is tried again."
    assert fate.reason is not None
    assert "500" in fate.reason.what
    assert (fate.next_ms, fate.can_hurry) == (NOW_MS + 5000, True)


def test_one_that_is_under_way_cannot_be_hurried() -> None:
    fate = told(attempts=1, status=500, lease="x")
    assert fate == Fate("Attempt 2 is under way.", can_hurry=False)


@pytest.mark.parametrize(("column", "word"), [("open_until_ms", "7 times in a row"), ("waits_until_ms", "pause")])
def test_one_whose_receiver_rests_waits_for_it(column: str, word: str) -> None:
    fate = told({column: NOW_MS + 60_000, "failures": 7}, attempts=1, status=503)
    assert word in fate.text
    assert (fate.next_ms, fate.can_hurry) == (NOW_MS + 60_000, False)


@pytest.mark.parametrize("failures", [0, 1, 4])
def test_one_whose_receiver_failed_now_and_then_is_not_said_to_have_failed_in_a_row(failures: int) -> None:
    fate = told({"open_until_ms": NOW_MS + 60_000, "failures": failures}, attempts=1, status=503)
    assert "failed half of the time, so" in fate.text


def test_the_attempt_that_was_taken_is_named() -> None:
    assert told(state="delivered", attempts=1, status=200).text == "The receiver took it."
    assert told(state="delivered", attempts=3, status=200).text == "The receiver took attempt 3."


def test_one_that_was_given_up_says_why() -> None:
    fate = told(state="failed", attempts=4, error="timeout")
    assert fate.text == "Given up after attempt 4."
    assert fate.reason is not None
    held = told(state="failed", error="held_too_long")
    assert held.text == "Given up without an attempt."
    assert held.reason is not None
    assert "7 days" in held.reason.what


@pytest.mark.parametrize(
    ("provider", "word"),
    [
        ({"state": "paused"}, "is paused"),
        (
            {"state": "disabled", "state_reason": "the receiver answered 410 Gone"},
            "disabled: the receiver answered 410",
        ),
    ],
)
def test_a_held_one_says_why_and_for_how_long(provider: dict[str, Any], word: str) -> None:
    fate = told(provider, state="held")
    assert word in fate.text
    assert (fate.until_ms, fate.can_hurry) == (NOW_MS + HELD_MS, False)


def test_a_held_one_of_a_provider_that_is_back_is_about_to_go() -> None:
    assert "active again" in told(state="held").text


def test_a_cancelled_one_says_that_its_provider_was_deleted() -> None:
    assert "deleted" in told(state="cancelled").text


def test_a_line_of_the_list_tells_the_same_moment() -> None:
    row = SimpleNamespace(state="pending", due_ms=5, open_until_ms=9, waits_until_ms=7)
    assert next_ms(row) == 9
    assert next_ms(SimpleNamespace(state="failed")) is None
