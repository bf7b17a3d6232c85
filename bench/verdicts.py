"""The inquest after a soak: what was lost, what came twice and through whose fault. Pure: notes in, counts out.

A delivery came twice when a receiver took it twice. Whose fault that was is told by who had it before. If the process
that the first one came from was killed, or stood still, while the database had the delivery leased (so nobody had
written down that it was taken), it was in flight. If that process had only been told to stop, it is SIGTERM's fault,
which must not be. If nothing had happened to it, the attempt log may say of that very attempt that it heard no answer
in time; else nothing explains it, which must not be either.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.moody import Arrival
from billhook.outbound.client import Budget

KILL, STOP, FREEZE = "SIGKILL", "SIGTERM", "SIGSTOP"
SLACK_SECONDS = 1.0  # what a killed process had sent may still be in the receiver's socket
ATTEMPT_SECONDS = Budget().total
LATE_SECONDS = 5.0  # for a receiver that is slow to read, and for a commit between the claim and the first byte
UNHEARD = "an answer that came too late"
UNEXPLAINED = "nothing"

Late = Mapping[str, Sequence[float]]  # by delivery, when those attempts began (monotonic) that heard no answer in time


@dataclass(frozen=True)
class Harm:
    """Something that happened to a process; `leased` is what the database had leased, to whomever, at that moment."""

    what: str  # KILL, FREEZE or STOP
    pid: int
    at: float
    until: float
    leased: frozenset[str]

    def explains(self, first: Arrival, second: Arrival) -> bool:
        """Whether what came first was in this process's hands then, and the second came after that."""
        is_late = second.at >= self.at and first.at <= self.until + SLACK_SECONDS
        if self.what == STOP:
            return is_late and first.pid == self.pid
        return is_late and first.pid in (self.pid, 0) and first.webhook_id in self.leased


def lost(accepted: Iterable[str], arrivals: Sequence[Arrival]) -> set[str]:
    return set(accepted) - {each.webhook_id for each in arrivals if each.taken}


def strangers(accepted: Iterable[str], arrivals: Sequence[Arrival]) -> set[str]:
    """That no sender was ever told about: with an idempotency key and enough patience there are none."""
    return {each.webhook_id for each in arrivals} - set(accepted)


def duplicates(arrivals: Sequence[Arrival], harms: Sequence[Harm], late: Late) -> Counter[str]:
    """How many came again, by what explains it."""
    return Counter(blamed for blamed, _, _ in explained(arrivals, harms, late))


def explained(arrivals: Sequence[Arrival], harms: Sequence[Harm], late: Late) -> Iterator[tuple[str, Arrival, Arrival]]:
    """What came again, and what explains it; who is killed or stands still is asked before who is told to stop."""
    order = sorted(harms, key=lambda harm: harm.what == STOP)
    for webhook_id, taken in _by_id(each for each in arrivals if each.taken).items():
        unheard = _unheard(taken, late.get(webhook_id, ()))
        for number, (first, second) in enumerate(pairwise(taken)):
            else_blamed = UNHEARD if number in unheard else UNEXPLAINED
            yield next((harm.what for harm in order if harm.explains(first, second)), else_blamed), first, second


def story(first: Arrival, second: Arrival, harms: Sequence[Harm]) -> str:
    """For people who must find out: what came twice from whom, what happened to those, and when, from the first on."""
    its = [harm for harm in harms if harm.pid in (first.pid, second.pid, 0) or first.webhook_id in harm.leased]
    told = [
        f"{harm.what} of {harm.pid} at {harm.at - first.at:+.2f} to {harm.until - first.at:+.2f}"
        + (", which had it leased" if first.webhook_id in harm.leased else "")
        for harm in its
    ]
    came = f"{first.webhook_id} came from {first.pid} and after {second.at - first.at:.2f} s from {second.pid}"
    return "; ".join([came, *told])


def unheard(arrivals: Sequence[Arrival], late: Late) -> int:
    """Answers that were given, and that nobody heard in time."""
    by_id = _by_id(each for each in arrivals if each.taken)
    return sum(len(_unheard(by_id[webhook_id], began)) for webhook_id, began in late.items())


def _unheard(taken: list[Arrival], began: Sequence[float]) -> set[int]:
    """Which of them, by number, belong to an attempt that heard no answer in time: for each attempt one at most."""
    found: set[int] = set()
    for at in sorted(began):
        until = at + ATTEMPT_SECONDS + LATE_SECONDS
        mine = (number for number, each in enumerate(taken) if at - SLACK_SECONDS <= each.at <= until)
        found.update([number for number in mine if number not in found][:1])
    return found


def in_flight(arrivals: Sequence[Arrival], harms: Sequence[Harm], what: str) -> int:
    """Deliveries that had reached a receiver, from this process, with their outcome not yet written down."""
    by_id = _by_id(arrivals)
    return sum(_was_in_flight(by_id[each], harm) for harm in harms if harm.what == what for each in harm.leased)


def _was_in_flight(arrivals: list[Arrival], harm: Harm) -> bool:
    before = [each for each in arrivals if each.at <= harm.at + SLACK_SECONDS]
    return bool(before) and before[-1].pid in (harm.pid, 0)


def _by_id(arrivals: Iterable[Arrival]) -> dict[str, list[Arrival]]:
    found: dict[str, list[Arrival]] = defaultdict(list)
    for each in arrivals:
        found[each.webhook_id].append(each)
    return found
