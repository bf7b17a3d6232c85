"""When to try again. Pure: no clock, no database, no randomness of its own."""

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import accumulate
from typing import NamedTuple

JITTER = 0.2  # spreads a burst of failures, so that a recovering receiver is not hit at once; never early
PATIENCE = timedelta(hours=24)  # the longest Retry-After that is believed
DEADLINE = timedelta(hours=72)  # for what costs no attempt: a receiver that says 429 for longer gets no more

GONE = 410
TOO_MANY = 429
ALWAYS = {408, 425, TOO_MANY}  # of the 4xx: the receiver says that it may work later
SOON_MENDED = {401, 403, 404}  # a token or a deployment: mended within hours or not at all
SOON_MENDED_STEPS = 6
REFUSED_STEPS = 3  # other 4xx: the receiver understood, and does not want it
HOPELESS = {"blocked_address", "bad_url"}  # trying again cannot help: somebody must change a setting
HINTING = {TOO_MANY, 503}

Schedule = tuple[timedelta, ...]


class Result(NamedTuple):
    """What an attempt came to: a status, or a word for what went wrong (then the status may be there too)."""

    status: int | None
    error: str | None
    retry_after: str | None = None

    @property
    def is_success(self) -> bool:
        return self.error is None and self.status is not None and 200 <= self.status < 300


class Decision(NamedTuple):
    state: str  # of the delivery from now on: delivered, pending or failed
    wait: timedelta = timedelta(0)  # before the next attempt
    is_charged: bool = True  # whether it counts against the schedule
    provider_wait: timedelta = timedelta(0)  # for which nothing at all is sent to this provider
    disables: bool = False  # whether nothing more may be sent to this provider


def decide(result: Result, *, charged: int, age: timedelta, schedule: Schedule, now: datetime, roll: float) -> Decision:
    """What follows. `charged` counts the attempts before this one that cost one; `roll` is in [0, 1)."""
    if result.is_success:
        return Decision("delivered")
    if result.status == GONE and result.error is None:
        return Decision("failed", disables=True)
    hint = _hint(result, now)
    if result.status == TOO_MANY and result.error is None:
        return _wait_politely(hint, charged=charged, age=age, schedule=schedule, roll=roll)
    if charged >= _steps(result, schedule):
        return Decision("failed", provider_wait=hint)
    return Decision("pending", max(_step(schedule, charged, roll), hint), provider_wait=hint)


def _wait_politely(hint: timedelta, *, charged: int, age: timedelta, schedule: Schedule, roll: float) -> Decision:
    """429 costs no attempt, but the waits of this delivery grow with its age all the same, and one day it ends."""
    steps_passed = sum(1 for reached in accumulate(schedule) if reached <= age)
    wait = max(_step(schedule, max(charged, steps_passed), roll), hint)
    state = "failed" if age + wait > DEADLINE else "pending"
    return Decision(state, wait, is_charged=False, provider_wait=max(hint, min(schedule[0], PATIENCE)))


def _step(schedule: Schedule, index: int, roll: float) -> timedelta:
    return schedule[min(index, len(schedule) - 1)] * (1 + JITTER * roll)


def _steps(result: Result, schedule: Schedule) -> int:
    """How many further attempts this kind of failure gets in all."""
    if result.error is not None:
        return 0 if result.error in HOPELESS else len(schedule)
    status = result.status or 0
    if not 400 <= status < 500 or status in ALWAYS:
        return len(schedule)
    return min(SOON_MENDED_STEPS if status in SOON_MENDED else REFUSED_STEPS, len(schedule))


def _hint(result: Result, now: datetime) -> timedelta:
    if result.error is not None or result.status not in HINTING or result.retry_after is None:
        return timedelta(0)
    return min(max(parse_retry_after(result.retry_after, now=now), timedelta(0)), PATIENCE)


def parse_retry_after(text: str, *, now: datetime) -> timedelta:
    """Seconds or a date, as RFC 9110 has it; zero for anything else."""
    if re.fullmatch(r"[0-9]+", text.strip()):
        return timedelta(seconds=min(int(text.strip().lstrip("0")[:18] or "0"), 10**9))
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return timedelta(0)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
