"""The end of a soak: wait until nothing is under way any more, then count and judge."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep, time

from bench import verdicts
from bench.engines import Site
from bench.faults import Hands, rows_of
from bench.moody import Arrival
from bench.report import Figure, Goal, Report, at_most
from bench.steady import CUT_OFF, FOR_A_TOKEN, NO_ANSWER, Told
from bench.verdicts import FREEZE, KILL, STOP, Late
from billhook.delivery.chores import MEND_SECONDS
from billhook.delivery.health import FIRST_OPENING
from billhook.delivery.queue import LEASE_MS
from billhook.delivery.retry import JITTER

STEPS_SECONDS = (1,) * 10 + (3,) * 40  # of the retry schedule: it shall not decide how long anything takes
SETTLED_SECONDS = LEASE_MS / 1000 + MEND_SECONDS  # a lease, and the longest time until somebody looks for lapsed ones
# Who waits for a receiver that had failed waits for its breaker as well. The one delivery that is tried first may have
# been with a process that was killed, and nothing else is tried until it is free again; the breaker may have opened,
# but not twice in a row, since the plan of faults leaves a receiver alone for long enough; and each has its next step.
ALL_SETTLED_SECONDS = SETTLED_SECONDS + FIRST_OPENING.total_seconds() + max(STEPS_SECONDS) * (1 + JITTER)
PATIENCE_SECONDS = 240.0
POLL_SECONDS = 0.25
TOLERATED_SECONDS = 300  # receivers refuse what is signed with a time that is further off
# Anything else is a fault of ours. There are tokens for a minute without a database, and then a 503.
EXPECTED = {"202", "503", f"503{FOR_A_TOKEN}", NO_ANSWER, CUT_OFF}

PENDING = """
SELECT count(*), count(CASE WHEN p.openings = 0 AND (d.attempts = 0 OR d.due_ms <= {now}) THEN 1 END)
FROM deliveries d JOIN providers p ON p.id = d.provider_id WHERE d.state = 'pending'
"""

LATE = "SELECT delivery_id, at_ms FROM attempts WHERE error = 'timeout'"


@dataclass(frozen=True)
class Settled:
    """Seconds after the last fault, or after the end of the load where there was none."""

    seconds: float  # until nothing was pending but what waits for a receiver that had failed
    all_seconds: float  # until nothing was pending at all


@dataclass(frozen=True)
class Findings:
    name: str
    told: Told
    arrivals: list[Arrival]
    hands: Hands
    settled: Settled
    clock: str
    tracebacks: int
    revived: int
    left_out: list[str]
    late: Late  # as the attempt log has it


def settle(site: Site, *, last_fault: float | None, load_ended: float, beside: Callable[[], None]) -> Settled:
    """Ask until nothing is pending, or until it is clear that this does not end by itself."""
    since, settled_at = calm_since(last_fault, load_ended), None
    while True:
        pending, ours = _pending(site)
        now = monotonic()
        if ours:
            settled_at = None  # a receiver that is well again has given us work again
        elif settled_at is None:
            settled_at = now
        if not pending or now > since + PATIENCE_SECONDS:
            return Settled((settled_at or now) - since, now - since)
        beside()
        sleep(POLL_SECONDS)


def calm_since(last_fault: float | None, load_ended: float) -> float:
    return load_ended if last_fault is None else last_fault


def _pending(site: Site) -> tuple[int, int]:
    """How many are pending, and how many of them wait for nobody but us."""
    ((pending, ours),) = rows_of(site, PENDING.format(now=int(time() * 1000)))
    return pending, ours


def late_answers(site: Site) -> Late:
    """The log has the wall clock of this machine, and so has its database."""
    found, booted = defaultdict[str, list[float]](list), time() - monotonic()
    for delivery_id, at_ms in rows_of(site, LATE):
        found[delivery_id].append(at_ms / 1000 - booted)
    return found


def account(found: Findings) -> Report:
    return Report(_figures(found), _goals(found))


def _figures(found: Findings) -> list[Figure]:
    name, hands, told = found.name, found.hands, found.told
    flights = {what: verdicts.in_flight(found.arrivals, hands.harms, what) for what in (KILL, FREEZE)}
    again = verdicts.duplicates(found.arrivals, hands.harms, found.late)
    counts: list[tuple[str, float, str]] = [
        ("accepted", len(told.accepted), ""),
        ("requests to receivers", len(found.arrivals), ""),
        ("requests whose sender was gone before it was looked up", sum(not each.pid for each in found.arrivals), ""),
        ("duplicates after an answer that came too late", again[verdicts.UNHEARD], ""),
        ("in flight at a SIGKILL", flights[KILL], ""),
        ("in flight at a SIGSTOP", flights[FREEZE], ""),
        *((f"answer to a sender: {answer}", count, "") for answer, count in sorted(told.answers.items())),
        *((f"fault: {what}", count, "times") for what, count in sorted(hands.done.items())),
        ("faults in all", hands.done.total(), "times"),
        ("faults left out, since the process was still starting", hands.skipped, "times"),
        ("processes that ended by themselves, started again", found.revived, ""),
        *((f"left out: {what}", 0, "times") for what in found.left_out),
    ]
    if found.clock:
        counts.append(("clock of one worker off by", float(found.clock.rstrip("s")), "s"))
    return [Figure(f"{name}: {what}", value, unit) for what, value, unit in counts]


def _goals(found: Findings) -> list[Goal]:
    arrivals, harms, told = found.arrivals, found.hands.harms, found.told
    again = verdicts.duplicates(arrivals, harms, found.late)
    kills, freezes = (verdicts.in_flight(arrivals, harms, what) for what in (KILL, FREEZE))
    odd = sum(count for answer, count in told.answers.items() if answer not in EXPECTED)
    skew = max((abs(each.skew) for each in arrivals), default=0)
    unheard = verdicts.unheard(arrivals, found.late)
    bounds: list[tuple[str, float, float]] = [
        ("accepted and lost", len(verdicts.lost(told.accepted, arrivals)), 0),
        ("duplicates after a SIGKILL, of those in flight", again[KILL], kills),
        ("duplicates after a SIGSTOP, of those in flight", again[FREEZE], freezes),
        ("duplicates after a SIGTERM", again[STOP], 0),
        ("duplicates that nothing explains", again[verdicts.UNEXPLAINED], 0),
        ("duplicates in all, of those in flight and unheard", again.total(), kills + freezes + unheard),
        ("delivered without a sender's 202", len(verdicts.strangers(told.accepted, arrivals)), told.unanswered),
        ("seconds from the last fault until settled", found.settled.seconds, SETTLED_SECONDS),
        ("seconds until nothing is pending at all", found.settled.all_seconds, ALL_SETTLED_SECONDS),
        ("largest error of a webhook-timestamp, seconds", skew, TOLERATED_SECONDS),
        ("answers that are neither 202 nor 503", odd, 0),
        ("stops whose exit status was not 0", found.hands.unclean, 0),
        ("tracebacks in the logs", found.tracebacks, 0),
    ]
    return [at_most(f"{found.name}: {what}", value, bound) for what, value, bound in bounds]
