"""How a provider is doing: the breaker, the wait it asked for, the end after days of failures. Pure."""

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

from billhook.groups.model import Health

OPENS_AT = 5  # failures in a row
WINDOW_MS = 60_000
WINDOW_LEAST = 20  # attempts within the window, of which
WINDOW_SHARE = 0.5  # this share failed
FIRST_OPENING = timedelta(seconds=30)
LONGEST_OPENING = timedelta(minutes=15)
DISABLED_AFTER = timedelta(hours=72)  # of failures only
DISABLED_LEAST = 10  # attempts in that time
NOTED_EVERY_MS = 10_000  # how exactly the last success is kept: a row need not be written for each


def succeeded(health: Health, now_ms: int) -> Health:
    return health._replace(
        failures=0,
        failed_attempts=0,
        openings=0,
        open_until_ms=0,
        failing_since_ms=None,
        last_success_ms=now_ms,
    )


def failed(health: Health, now_ms: int, *, mostly_failing: bool = False) -> Health:
    """`mostly_failing`: what the Window says. Failures of attempts begun before an opening do not open it again."""
    worse = health._replace(
        failures=health.failures + 1,
        failed_attempts=health.failed_attempts + 1,
        failing_since_ms=now_ms if health.failing_since_ms is None else health.failing_since_ms,
        last_failure_ms=now_ms,
    )
    is_open = health.open_until_ms > now_ms
    was_probe = health.openings > 0
    if is_open or not (was_probe or worse.failures >= OPENS_AT or mostly_failing):
        return worse
    return worse._replace(openings=worse.openings + 1, open_until_ms=now_ms + _opening_ms(worse.openings))


def _opening_ms(openings_before: int) -> int:
    doubled = FIRST_OPENING * 2 ** min(openings_before, 10)
    return int(min(doubled, LONGEST_OPENING) / timedelta(milliseconds=1))


def waiting(health: Health, until_ms: int) -> Health:
    """The receiver asked for a pause; a longer one that it asked for before still counts."""
    return health._replace(waits_until_ms=max(health.waits_until_ms, until_ms))


def is_given_up(health: Health, now_ms: int) -> bool:
    if health.failing_since_ms is None or health.failed_attempts < DISABLED_LEAST:
        return False
    return now_ms - health.failing_since_ms >= DISABLED_AFTER / timedelta(milliseconds=1)


def may_start(health: Health, now_ms: int, *, most: int) -> int:
    """How many attempts may be under way: none while the breaker is open, one to probe after that."""
    if health.open_until_ms > now_ms or health.waits_until_ms > now_ms:
        return 0
    return 1 if health.openings else most


def starts_again_ms(health: Health) -> int:
    return max(health.open_until_ms, health.waits_until_ms)


def is_well(health: Health) -> bool:
    """Then a success changes nothing but its own moment."""
    return not health.failures and not health.openings and health.failing_since_ms is None


def is_worth_noting(health: Health, now_ms: int, *, noted_ms: int) -> bool:
    """Whether a success changes anything that is stored. `noted_ms`: the last one that this process has stored."""
    return not is_well(health) or now_ms - max(health.last_success_ms or 0, noted_ms) > NOTED_EVERY_MS


@dataclass(slots=True)
class Window:
    """The last minute of one provider, in seconds: how many attempts, how many of them failed."""

    seconds: deque[list[int]] = field(default_factory=deque)  # [second, attempts, failures]
    noted_ms: int = 0  # when its health was last stored from here

    def add(self, now_ms: int, *, ok: bool) -> None:
        second = now_ms // 1000
        if not self.seconds or self.seconds[-1][0] != second:
            self.seconds.append([second, 0, 0])
        self.seconds[-1][1] += 1
        self.seconds[-1][2] += not ok
        while self.seconds[0][0] * 1000 <= now_ms - WINDOW_MS:
            self.seconds.popleft()

    def copy(self) -> "Window":
        return Window(deque([*each] for each in self.seconds), self.noted_ms)

    def has_failures(self) -> bool:
        return any(each[2] for each in self.seconds)

    def is_mostly_failing(self) -> bool:
        attempts, failures = sum(each[1] for each in self.seconds), sum(each[2] for each in self.seconds)
        return attempts >= WINDOW_LEAST and failures >= WINDOW_SHARE * attempts
