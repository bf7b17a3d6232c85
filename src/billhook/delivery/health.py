"""How a provider is doing: the breaker, the wait it asked for, the end after days of failures. Pure."""

from dataclasses import dataclass, field
from datetime import timedelta

import orjson

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


def succeeded(health: Health, now_ms: int, *, mostly_failing: bool = False) -> Health:
    """`mostly_failing`: what the Window says. Then what was in the air at an opening does not undo it: a probe must."""
    if mostly_failing and health.open_until_ms > now_ms:
        return health._replace(failures=0, failed_attempts=0, failing_since_ms=None, last_success_ms=now_ms)
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


def is_worth_noting(health: Health, now_ms: int, *, noted_ms: int = 0, failed_ms: int = 0) -> bool:
    """Whether a success changes anything that is stored. The last ones that this process knows of are `noted_ms`, of
    successes that it has stored, and `failed_ms`, of failures.

    Within a minute of a failure every success is: that minute must not look worse than it was.
    """
    failed_ms = max(health.last_failure_ms or 0, failed_ms)
    if not is_well(health) or abs(now_ms - failed_ms) < WINDOW_MS:
        return True
    return now_ms - max(health.last_success_ms or 0, noted_ms) > NOTED_EVERY_MS


@dataclass(slots=True)
class Window:
    """The last minute of one provider, by the second: how many attempts, how many of them failed."""

    seconds: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, now_ms: int, *, ok: bool) -> None:
        second = now_ms // 1000
        if second not in self.seconds:
            self.forget(now_ms)
        self._count(second, 1, int(not ok))

    def merge(self, other: "Window") -> None:
        for second, (attempts, failures) in other.seconds.items():
            self._count(second, attempts, failures)

    def _count(self, second: int, attempts: int, failures: int) -> None:
        before = self.seconds.get(second, (0, 0))
        self.seconds[second] = before[0] + attempts, before[1] + failures

    def forget(self, now_ms: int) -> None:
        """What is older than a minute; or is still to come, since a clock was set back."""
        for second in [each for each in self.seconds if abs(now_ms // 1000 - each) >= WINDOW_MS // 1000]:
            del self.seconds[second]

    def has_failures(self) -> bool:
        return any(failures for _, failures in self.seconds.values())

    def is_mostly_failing(self) -> bool:
        attempts = sum(attempts for attempts, _ in self.seconds.values())
        failures = sum(failures for _, failures in self.seconds.values())
        return attempts >= WINDOW_LEAST and failures >= WINDOW_SHARE * attempts

    def written(self) -> str:
        """As it is stored."""
        return orjson.dumps([(second, *both) for second, both in self.seconds.items()]).decode()

    @classmethod
    def read(cls, stored: str) -> "Window":
        seconds: list[list[int]] = orjson.loads(stored)
        return cls({second: (attempts, failures) for second, attempts, failures in seconds})


@dataclass(slots=True)
class Memory:
    """What one worker knows of a provider beyond what is stored.

    While there are no failures, successes are not told but remembered, since a row need not be written for each.
    """

    untold: Window = field(default_factory=Window)
    noted_ms: int = 0  # when its health was last stored from here
    failed_ms: int = 0  # the last failure that is known of, here or elsewhere

    def copy(self) -> "Memory":
        return Memory(Window(dict(self.untold.seconds)), self.noted_ms, self.failed_ms)

    def is_old(self, now_ms: int) -> bool:
        latest = max(self.noted_ms, self.failed_ms, *(1000 * second for second in self.untold.seconds))
        return latest <= now_ms - WINDOW_MS
