"""Whatever goes wrong, somebody is told what it was and what to do."""

import pytest

from billhook.console.reasons import ADVICE, reason_of, spell_status
from billhook.delivery.holding import HELD_TOO_LONG
from billhook.outbound.request import ERRORS


def test_every_word_for_a_failure_has_advice() -> None:
    assert ADVICE.keys() == ERRORS.keys()


@pytest.mark.parametrize("error", [*ERRORS, HELD_TOO_LONG, "a word of tomorrow"])
def test_a_failure_has_a_reason_in_whole_sentences(error: str) -> None:
    reason = reason_of(None, error)
    assert reason is not None
    assert all(text[0].isupper() and text.endswith(".") for text in (reason.what, reason.advice))


@pytest.mark.parametrize("status", [*range(300, 600), 101, 777, 999])
def test_every_status_but_2xx_has_a_reason(status: int) -> None:
    reason = reason_of(status, None)
    assert reason is not None
    assert reason.what.startswith(f"The receiver answered {status}")
    assert reason.advice.endswith(".")


@pytest.mark.parametrize("status", [None, 200, 202, 204, 299])
def test_what_was_taken_or_not_tried_needs_no_reason(status: int | None) -> None:
    assert reason_of(status, None) is None


def test_an_answer_that_broke_off_is_told_by_what_broke_it() -> None:
    reason = reason_of(200, "connection_reset")
    assert reason is not None
    assert reason.what == ERRORS["connection_reset"]


@pytest.mark.parametrize(("status", "said"), [(404, "404 Not Found"), (299, "299")])
def test_a_status_is_spelled_with_its_name_if_it_has_one(status: int, said: str) -> None:
    assert spell_status(status) == said
