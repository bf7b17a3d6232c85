"""When to try again: the whole table, and what holds for every attempt."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.delivery.retry import DEADLINE, JITTER, PATIENCE, Decision, Result, decide, parse_retry_after
from billhook.outbound.request import ERRORS
from billhook.settings import Settings

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SCHEDULE = Settings.model_validate({}).retry_schedule
STEPS = len(SCHEDULE)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
NOTHING = timedelta(0)
HOPELESS = {"blocked_address", "bad_url"}

ROLLS = st.floats(min_value=0, max_value=1, exclude_max=True)
STATUSES = st.integers(min_value=100, max_value=599)
FAILURES = STATUSES.filter(lambda status: not 200 <= status < 300)
COUNTS = st.integers(min_value=0, max_value=40)
AGES = st.timedeltas(min_value=NOTHING, max_value=timedelta(days=30))
HINTS = st.none() | st.integers(-(10**12), 10**12).map(str) | st.text(max_size=40)
RESULTS = st.builds(Result, STATUSES, st.none(), HINTS) | st.builds(
    Result, st.none() | STATUSES, st.sampled_from(sorted(ERRORS)), HINTS
)


def after(result: Result, *, charged: int = 0, age: timedelta = NOTHING) -> Decision:
    """What follows with the smallest jitter."""
    return decide(result, charged=charged, age=age, schedule=SCHEDULE, now=NOW, roll=0.0)


def answered(status: int, retry_after: str | None = None) -> Result:
    return Result(status, None, retry_after)


def broken(error: str) -> Result:
    return Result(None, error)


def attempts_of(result: Result) -> int:
    """How many attempts a delivery gets that always ends like this."""
    charged = 0
    while after(result, charged=charged).state == "pending":
        charged += 1
        assert charged <= STEPS, "it never ends"
    return charged + 1


def test_the_schedule_is_the_one_that_was_promised() -> None:
    minutes = [2, 10, 30, 60, 2 * 60, 4 * 60, 8 * 60, 12 * 60, 20 * 60, 24 * 60]
    assert (10 * SECOND, 30 * SECOND, *(count * MINUTE for count in minutes)) == SCHEDULE


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226, 299])
def test_every_2xx_is_a_success(status: int) -> None:
    assert after(answered(status), charged=STEPS) == Decision("delivered")


@pytest.mark.parametrize("error", sorted(ERRORS))
def test_an_answer_that_broke_off_is_no_success(error: str) -> None:
    assert after(Result(200, error)).state == ("failed" if error in HOPELESS else "pending")


ALL_STEPS = [100, 101, 199, 300, 301, 302, 303, 304, 307, 308, 399, 408, 425, 500, 501, 502, 503, 504, 505, 520, 599]


@pytest.mark.parametrize(
    ("result", "attempts"),
    [
        *((answered(status), 1 + STEPS) for status in ALL_STEPS),
        *((answered(status), 1 + 6) for status in (401, 403, 404)),
        *((answered(status), 1 + 3) for status in (400, 402, 405, 406, 409, 411, 413, 414, 415, 418, 422, 451, 499)),
        *((broken(error), 1 + STEPS) for error in sorted(ERRORS.keys() - HOPELESS)),
        *((broken(error), 1) for error in sorted(HOPELESS)),
        (answered(410), 1),
    ],
)
def test_each_kind_of_failure_gets_its_number_of_attempts(result: Result, attempts: int) -> None:
    assert attempts_of(result) == attempts


@pytest.mark.parametrize("charged", range(STEPS))
def test_each_attempt_waits_for_its_step(charged: int) -> None:
    assert after(answered(500), charged=charged) == Decision("pending", SCHEDULE[charged])


def test_a_short_schedule_bounds_every_kind_of_failure() -> None:
    for status in (401, 400, 500):
        decision = decide(answered(status), charged=1, age=NOTHING, schedule=(SECOND,), now=NOW, roll=0.0)
        assert decision.state == "failed"


def test_only_gone_disables_the_provider_and_at_once() -> None:
    assert after(answered(410)) == Decision("failed", disables=True)
    assert not after(Result(410, "timeout")).disables


@given(result=RESULTS, charged=COUNTS, age=AGES, roll=ROLLS)
def test_nothing_else_ever_disables_it(result: Result, charged: int, age: timedelta, roll: float) -> None:
    decision = decide(result, charged=charged, age=age, schedule=SCHEDULE, now=NOW, roll=roll)
    assert decision.disables == (result.status == 410 and result.error is None)


@given(status=FAILURES, charged=COUNTS, roll=ROLLS)
def test_a_retry_is_never_early_and_at_most_a_fifth_late(status: int, charged: int, roll: float) -> None:
    decision = decide(answered(status), charged=charged, age=NOTHING, schedule=SCHEDULE, now=NOW, roll=roll)
    if decision.state == "pending":
        step = SCHEDULE[min(charged, STEPS - 1)]
        assert step <= decision.wait <= step * (1 + JITTER)


@given(result=RESULTS, charged=COUNTS, age=AGES, roll=ROLLS)
def test_whatever_comes_back_there_is_an_answer(result: Result, charged: int, age: timedelta, roll: float) -> None:
    decision = decide(result, charged=charged, age=age, schedule=SCHEDULE, now=NOW, roll=roll)
    assert decision.state in {"delivered", "pending", "failed"}
    assert NOTHING <= decision.wait <= PATIENCE * (1 + JITTER)
    assert NOTHING <= decision.provider_wait <= PATIENCE * (1 + JITTER)
    assert decision.is_charged or result.status == 429
    if decision.state == "pending":
        assert decision.wait >= SCHEDULE[0]


@given(result=RESULTS.filter(lambda result: result.status != 429 and not result.is_success), charged=COUNTS)
def test_a_delivery_ends_with_its_schedule(result: Result, charged: int) -> None:
    if charged >= STEPS:
        assert after(result, charged=charged).state == "failed"


def date_in(wait: timedelta) -> str:
    return format_datetime(NOW + wait, usegmt=True)


RETRY_AFTERS = [
    ("0", NOTHING),
    ("1", SECOND),
    ("120", 2 * MINUTE),
    (" 120 ", 2 * MINUTE),
    ("86400", 24 * HOUR),
    ("86401", PATIENCE),
    ("1000000000", PATIENCE),
    ("9" * 18, PATIENCE),
    ("9" * 19, PATIENCE),
    ("9" * 400, PATIENCE),
    ("-1", NOTHING),
    ("1e9", NOTHING),
    ("1.5", NOTHING),
    ("0x10", NOTHING),
    ("٣٣", NOTHING),
    ("", NOTHING),
    ("soon", NOTHING),
    ("\ufffd\x01", NOTHING),
    (date_in(5 * MINUTE), 5 * MINUTE),
    (date_in(-5 * MINUTE), NOTHING),
    (date_in(timedelta(days=365)), PATIENCE),
    ("Monday, 01-Jun-26 12:05:00 GMT", 5 * MINUTE),
    ("Mon Jun  1 12:05:00 2026", 5 * MINUTE),
    ("Mon, 01 Jun 2026 12:05:00 -0000", 5 * MINUTE),
    ("Mon, 01 Jun 2026 14:05:00 +0200", 5 * MINUTE),
    ("Mon, 01 Jun 99999 12:05:00 GMT", NOTHING),
    ("Mon, 01 Jun 2026 12:05:00 +9999", NOTHING),
    ("Mon, 32 Jun 2026 12:05:00 GMT", NOTHING),
]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("text", "hint"), RETRY_AFTERS)
def test_retry_after_prolongs_the_wait_of_the_whole_provider(status: int, text: str, hint: timedelta) -> None:
    decision = after(answered(status, text))
    assert decision.state == "pending"
    assert decision.wait == max(SCHEDULE[0], hint)
    assert decision.provider_wait == (decision.wait if status == 429 else hint)


@pytest.mark.parametrize("status", [301, 400, 404, 408, 500, 502])
def test_retry_after_is_heard_with_429_and_503_only(status: int) -> None:
    assert after(answered(status, "3600")) == after(answered(status))
    assert after(Result(503, "timeout", "3600")) == after(Result(503, "timeout"))


def test_a_longer_step_counts_more_than_a_shorter_hint() -> None:
    decision = after(answered(503, "60"), charged=5)
    assert (decision.wait, decision.provider_wait) == (HOUR, MINUTE)


def test_the_last_503_still_makes_the_provider_wait() -> None:
    assert after(answered(503, "60"), charged=STEPS) == Decision("failed", provider_wait=MINUTE)


@given(text=st.text(max_size=60) | st.text(alphabet="0123456789 ,:+-.MonJanGT", max_size=40))
def test_no_text_breaks_the_reading_of_retry_after(text: str) -> None:
    parse_retry_after(text, now=NOW)


@given(wait=st.integers(min_value=0, max_value=86400))
def test_seconds_and_a_date_mean_the_same(wait: int) -> None:
    as_date = parse_retry_after(date_in(timedelta(seconds=wait)), now=NOW)
    assert as_date == parse_retry_after(str(wait), now=NOW) == timedelta(seconds=wait)


@given(charged=st.integers(0, STEPS - 3), passed=st.integers(0, STEPS - 3), roll=ROLLS)
def test_429_costs_no_attempt_but_the_waits_grow_with_age(charged: int, passed: int, roll: float) -> None:
    age = sum(SCHEDULE[:passed], NOTHING)
    decision = decide(answered(429), charged=charged, age=age, schedule=SCHEDULE, now=NOW, roll=roll)
    assert (decision.state, decision.is_charged) == ("pending", False)
    step = SCHEDULE[max(charged, passed)]
    assert step <= decision.wait <= step * (1 + JITTER)


@given(age=AGES, roll=ROLLS)
def test_429_without_a_hint_keeps_the_provider_waiting_for_one_short_step_only(age: timedelta, roll: float) -> None:
    decision = decide(answered(429), charged=0, age=age, schedule=SCHEDULE, now=NOW, roll=roll)
    assert decision.provider_wait == SCHEDULE[0]


@given(age=AGES, hint=st.integers(0, 10**6), roll=ROLLS)
def test_429_ends_before_it_would_pass_the_deadline(age: timedelta, hint: int, roll: float) -> None:
    decision = decide(answered(429, str(hint)), charged=0, age=age, schedule=SCHEDULE, now=NOW, roll=roll)
    assert decision.state == ("pending" if age + decision.wait <= DEADLINE else "failed")
    assert not decision.is_charged


def test_a_receiver_that_always_says_429_is_given_up_after_three_days() -> None:
    age = NOTHING
    while (decision := after(answered(429), age=age)).state == "pending":
        age += decision.wait
    assert timedelta(hours=48) < age <= timedelta(hours=72)


def test_429_from_a_connection_that_broke_is_charged_like_any_error() -> None:
    assert after(Result(429, "connection_reset", "3600")) == Decision("pending", SCHEDULE[0])
