"""Who is served next, and how much of it: provider by provider, never the oldest of all. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

SECOND_US = 1_000_000
ANYBODY = ""
PACE_PARTS = 10  # a rate limit is kept within each tenth of a second, so that no second sees much more than it


@dataclass(frozen=True, slots=True)
class Limits:
    per_provider: int
    per_organization: int
    per_process: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A provider with due work, how many attempts it may have under way, and how many may start now."""

    provider_id: str
    organization_id: str
    most: int
    starts: int


def allot(
    candidates: Sequence[Candidate], leased: Mapping[tuple[str, str], int], *, free: int, limits: Limits
) -> dict[str, int]:
    """How many deliveries to take for each provider: each place goes to the one that has the fewest under way.

    So a provider that answers slowly keeps no more than its share, however often it comes first. `leased` has what is
    under way in all processes, by organization and provider.
    """
    of_provider: Counter[str] = Counter()
    of_organization: Counter[str] = Counter()
    for (organization_id, provider_id), count in leased.items():
        of_provider[provider_id] += count
        of_organization[organization_id] += count
    taken: Counter[str] = Counter()
    waiting = [(of_provider[each.provider_id], place) for place, each in enumerate(candidates)]
    heapify(waiting)
    while waiting and free > 0:
        under_way, place = heappop(waiting)
        each = candidates[place]
        is_full = under_way >= each.most or taken[each.provider_id] >= each.starts
        if is_full or of_organization[each.organization_id] >= limits.per_organization:
            continue
        of_organization[each.organization_id] += 1
        taken[each.provider_id] += 1
        free -= 1
        heappush(waiting, (under_way + 1, place))
    return {provider_id: count for provider_id, count in taken.items() if count}


def crowded_out(
    candidates: Sequence[Candidate], leased: Mapping[tuple[str, str], int], taken: Mapping[str, int]
) -> list[Candidate]:
    """Those that would have taken more than `allot` gave them, had others not had the places."""

    def is_crowded_out(each: Candidate) -> bool:
        took = taken.get(each.provider_id, 0)
        return took < each.starts and leased.get((each.organization_id, each.provider_id), 0) + took < each.most

    return [each for each in candidates if is_crowded_out(each)]


def awaited(
    candidates: Sequence[Candidate],
    crowded: Sequence[Candidate],
    taken: Mapping[str, int],
    begun: Mapping[str, int],
    *,
    free: int,
) -> set[str]:
    """Of whom a place must become free before more can be taken: providers, organizations, or anybody.

    `taken` is what `allot` gave, `begun` what was there to be begun: who has begun less has no more waiting.
    """
    full = {each.provider_id for each in candidates if begun.get(each.provider_id, 0) == taken.get(each.provider_id, 0)}
    is_process_full = sum(taken.values()) >= free
    others = {ANYBODY if is_process_full else each.organization_id for each in crowded if each.provider_id in full}
    return full | others


def pace(next_slot_us: int, now_ms: int, *, rate: int, want: int) -> tuple[int, int]:
    """Of `want` attempts, how many a rate (a second) lets begin now, and the slot after theirs.

    Slots are microseconds: at 700 a second, whole milliseconds would be far off.
    """
    start_us = max(next_slot_us, now_ms * 1000)
    early_us = now_ms * 1000 - _earliest_us(start_us, rate)
    allowed = 0 if early_us < 0 else min(want, 1 + early_us * rate // SECOND_US)
    return allowed, start_us + -(-allowed * SECOND_US // rate)


def paced_ms(slot_us: int, rate: int) -> int:
    """From when on the attempt of a slot may begin."""
    return -(-_earliest_us(slot_us, rate) // 1000)


def _earliest_us(slot_us: int, rate: int) -> int:
    """A few may go together, for nobody looks at every moment."""
    together = max(1, rate // PACE_PARTS)
    return slot_us - (together - 1) * SECOND_US // rate
