"""The end of a soak: wait until nothing is under way any more, then count and judge."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep, time

from bench import verdicts
from bench.engines import Site
from bench.faults import Hands, rows_of
from bench.moody import Arrival
from bench.report import Figure, Goal, Report, at_most, tell
from bench.steady import CUT_OFF, FOR_A_TOKEN, NO_ANSWER, Told
from bench.verdicts import FREEZE, KILL, STOP, Late

STEPS_SECONDS = (1,) * 10 + (3,) * 40  # of the retry schedule: it shall not decide how long anything takes
SETTLED_SECONDS = 75.0  # a lease of 60, 10 until somebody looks for lapsed ones, and time for what waits behind them
PATIENCE_SECONDS = 240.0
POLL_SECONDS = 0.25
TOLERATED_SECONDS = 300  # receivers refuse what is signed with a time that is further off
# Anything else is a fault of ours. There are tokens for a minute without a database, and then a 503.
EXPECTED = {"202", "503", f"503{FOR_A_TOKEN}", NO_ANSWER, CUT_OFF}

PENDING = "SELECT count(*) FROM deliveries WHERE state = 'pending'"
LATE = "SELECT delivery_id, at_ms FROM attempts WHERE error = 'timeout'"


@dataclass(frozen=True)
class Findings:
    name: str
    told: Told
    arrivals: list[Arrival]
    hands: Hands
    settled: float  # seconds from the last fault, or from the end of the load where there was none
    clock: str
    tracebacks: int
    revived: int
    left_out: list[str]
    late: Late  # as the attempt log has it


def settle(site: Site, *, last_fault: float | None, load_ended: float, beside: Callable[[], None]) -> float:
    """Ask until nothing is pending, or until it is clear that this does not end by itself. How many seconds it took."""
    since = calm_since(last_fault, load_ended)
    while rows_of(site, PENDING)[0][0] and monotonic() < since + PATIENCE_SECONDS:
        beside()
        sleep(POLL_SECONDS)
    return monotonic() - since


def calm_since(last_fault: float | None, load_ended: float) -> float:
    return load_ended if last_fault is None else last_fault


def late_answers(site: Site) -> Late:
    """The log has the wall clock of this machine, and so has its database."""
    found, booted = defaultdict[str, list[float]](list), time() - monotonic()
    for delivery_id, at_ms in rows_of(site, LATE):
        found[delivery_id].append(at_ms / 1000 - booted)
    return found


def account(found: Findings) -> Report:
    for blamed, first, second in verdicts.explained(found.arrivals, found.hands.harms, found.late):
        if blamed in (STOP, verdicts.UNEXPLAINED):
            tell(f"{found.name}: {blamed} explains that {verdicts.story(first, second, found.hands.harms)}")
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
        ("faults left out, since the process had not begun to work", hands.skipped, "times"),
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
        ("seconds from the last fault until nothing is pending", found.settled, SETTLED_SECONDS),
        ("largest error of a webhook-timestamp, seconds", skew, TOLERATED_SECONDS),
        ("answers that are neither 202 nor 503", odd, 0),
        ("stops whose exit status was not 0", found.hands.unclean, 0),
        ("tracebacks in the logs", found.tracebacks, 0),
    ]
    return [at_most(f"{found.name}: {what}", value, bound) for what, value, bound in bounds]
