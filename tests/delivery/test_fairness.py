"""Who is served next: those with the fewest under way, within every limit, at the pace each receiver wants."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook.delivery.fairness import (
    ANYBODY,
    PACE_PARTS,
    Candidate,
    Limits,
    allot,
    awaited,
    crowded_out,
    pace,
    paced_ms,
)

START = 1_780_000_000_000
ORGANIZATIONS = ("a", "b", "c")
SMALL = st.integers(0, 12)
LIMITS = st.builds(Limits, st.integers(1, 12), st.integers(1, 30), st.integers(1, 60))

Leased = dict[tuple[str, str], int]


def candidate(number: int, *, most: int, starts: int) -> Candidate:
    return Candidate(f"p{number}", ORGANIZATIONS[number % len(ORGANIZATIONS)], most, starts)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Candidate], Leased]:
    """Providers with due work, and what is under way for them and for others."""
    pairs = draw(st.lists(st.tuples(SMALL, SMALL), max_size=12))
    candidates = [candidate(number, most=most, starts=starts) for number, (most, starts) in enumerate(pairs)]
    leased = {(each.organization_id, each.provider_id): draw(SMALL) for each in candidates if draw(st.booleans())}
    leased |= {(organization, f"other-{organization}"): draw(SMALL) for organization in ORGANIZATIONS}
    return candidates, leased


def under_way(leased: Leased) -> tuple[Counter[str], Counter[str]]:
    """By organization, by provider."""
    of_organization, of_provider = Counter[str](), Counter[str]()
    for (organization, provider), count in leased.items():
        of_organization[organization] += count
        of_provider[provider] += count
    return of_organization, of_provider


def taken_by(organization: str, candidates: list[Candidate], taken: dict[str, int]) -> int:
    return sum(taken.get(each.provider_id, 0) for each in candidates if each.organization_id == organization)


@given(situation=situations(), free=st.integers(-5, 60), limits=LIMITS)
def test_no_limit_is_ever_passed(situation: tuple[list[Candidate], Leased], free: int, limits: Limits) -> None:
    candidates, leased = situation
    taken = allot(candidates, leased, free=free, limits=limits)
    of_organization, of_provider = under_way(leased)
    assert sum(taken.values()) <= max(free, 0)
    assert set(taken) <= {each.provider_id for each in candidates}
    for each in candidates:
        took = taken.get(each.provider_id, 0)
        assert took <= each.starts
        assert took == 0 or of_provider[each.provider_id] + took <= each.most
    for organization in ORGANIZATIONS:
        took = taken_by(organization, candidates, taken)
        assert took == 0 or of_organization[organization] + took <= limits.per_organization


def could_take_more(
    each: Candidate, situation: tuple[list[Candidate], Leased], taken: dict[str, int], limits: Limits
) -> bool:
    candidates, leased = situation
    of_organization, of_provider = under_way(leased)
    took = taken.get(each.provider_id, 0)
    in_all = of_organization[each.organization_id] + taken_by(each.organization_id, candidates, taken)
    is_its_own = took < each.starts and of_provider[each.provider_id] + took < each.most
    return is_its_own and in_all < limits.per_organization


@given(situation=situations(), free=st.integers(0, 60), limits=LIMITS)
def test_nothing_is_left_free_that_somebody_could_take(
    situation: tuple[list[Candidate], Leased], free: int, limits: Limits
) -> None:
    taken = allot(situation[0], situation[1], free=free, limits=limits)
    if sum(taken.values()) < free:
        assert not [each for each in situation[0] if could_take_more(each, situation, taken, limits)]


@given(situation=situations(), free=st.integers(0, 60), limits=LIMITS)
def test_nobody_who_got_a_place_has_two_more_than_another_who_could_have_taken_it(
    situation: tuple[list[Candidate], Leased], free: int, limits: Limits
) -> None:
    """Counted with what was under way before."""
    candidates, leased = situation
    taken = allot(candidates, leased, free=free, limits=limits)
    _, of_provider = under_way(leased)
    for each in candidates:
        took = taken.get(each.provider_id, 0)
        is_full = took >= each.starts or of_provider[each.provider_id] + took >= each.most
        rivals = [other.provider_id for other in candidates if other.organization_id == each.organization_id]
        served = [of_provider[rival] + taken[rival] for rival in rivals if rival in taken]
        if not is_full:
            assert all(count <= of_provider[each.provider_id] + took + 1 for count in served)


@given(count=st.integers(1, 12), backlog=st.integers(1, 12), free=st.integers(0, 60))
def test_with_equal_wants_the_shares_differ_by_one_at_most(count: int, backlog: int, free: int) -> None:
    candidates = [candidate(number, most=backlog, starts=backlog) for number in range(count)]
    taken = allot(candidates, {}, free=free, limits=Limits(12, 1000, 1000))
    shares = [taken.get(each.provider_id, 0) for each in candidates]
    assert max(shares) - min(shares) <= 1
    assert sum(shares) == min(free, count * backlog)


@given(situation=situations(), free=st.integers(0, 60))
def test_a_huge_backlog_takes_nothing_from_others_but_its_turn(
    situation: tuple[list[Candidate], Leased], free: int
) -> None:
    """Whatever it asks for beyond its share, the others get what they get when it asks for one at a time."""
    others, leased = situation[0], dict[tuple[str, str], int]()
    limits = Limits(12, 10_000, 10_000)
    hog = Candidate("hog", "its own", most=10_000, starts=10_000)
    beside = allot([hog, *others], leased, free=free, limits=limits)
    alone = allot(others, leased, free=free, limits=limits)
    most_of_another = max((beside.get(each.provider_id, 0) for each in others), default=0)
    lost = sum(alone.values()) - sum(beside.get(each.provider_id, 0) for each in others)
    assert 0 <= lost <= most_of_another + 1
    for each in others:
        assert beside.get(each.provider_id, 0) <= alone.get(each.provider_id, 0)
        if free >= sum(alone.values()) + most_of_another + 1:
            assert beside.get(each.provider_id, 0) == alone.get(each.provider_id, 0)


@given(freed=st.lists(st.integers(0, 49), max_size=200))
@settings(deadline=None)
def test_over_time_nobody_keeps_more_than_its_share_of_the_places(freed: list[int]) -> None:
    """Twelve providers with endless work and fifty places, of which one at a time becomes free, whichever it is."""
    candidates = [Candidate(f"p{number}", "a", most=10, starts=10) for number in range(12)]
    leased: Counter[tuple[str, str]] = Counter()
    for place in [None, *freed]:
        if place is not None:
            leased[list(leased.elements())[place]] -= 1
        for provider_id, count in allot(candidates, leased, free=50, limits=Limits(10, 50, 500)).items():
            leased["a", provider_id] += count
        shares = [leased["a", each.provider_id] for each in candidates]
        assert sum(shares) == 50
        assert max(shares) - min(shares) <= 1


def test_an_organization_at_its_limit_leaves_room_for_others() -> None:
    full = [Candidate(f"f{number}", "full", most=10, starts=10) for number in range(20)]
    last = Candidate("last", "small", most=10, starts=3)
    taken = allot([*full, last], {}, free=500, limits=Limits(10, 50, 500))
    assert (taken["last"], sum(taken.values())) == (3, 53)


def test_what_is_under_way_elsewhere_counts() -> None:
    one = Candidate("p", "o", most=10, starts=10)
    assert allot([one], {("o", "p"): 9}, free=500, limits=Limits(10, 50, 500)) == {"p": 1}
    assert allot([one], {("o", "q"): 48}, free=500, limits=Limits(10, 50, 500)) == {"p": 2}
    assert allot([one], {("o", "q"): 50}, free=500, limits=Limits(10, 50, 500)) == {}


ONE, TWO = Candidate("p", "o", most=10, starts=10), Candidate("q", "o", most=10, starts=10)
WAITING = {
    "more waits than the provider may have under way": ([ONE], {("o", "p"): 7}, {"p": 3}, 500, {"p"}),
    "nothing more waits": ([ONE], {("o", "p"): 7}, {"p": 1}, 500, set()),
    "it paces itself": ([Candidate("p", "o", most=10, starts=2)], {}, {"p": 2}, 500, {"p"}),
    "others of its organization have the places": ([ONE], {("o", "r"): 48}, {"p": 2}, 500, {"p", "o"}),
    "this process has no more places": ([ONE, TWO], {}, {"p": 2, "q": 2}, 4, {"p", "q", ANYBODY}),
    "one is crowded out, the other had less": ([ONE, TWO], {("o", "r"): 46}, {"p": 2, "q": 1}, 500, {"p", "o"}),
}


@pytest.mark.parametrize("candidates, leased, begun, free, expected", WAITING.values(), ids=WAITING)
def test_whose_place_is_awaited(
    candidates: list[Candidate], leased: Leased, begun: dict[str, int], free: int, expected: set[str]
) -> None:
    taken = allot(candidates, leased, free=free, limits=Limits(10, 50, 500))
    crowded = crowded_out(candidates, leased, taken)
    assert awaited(candidates, crowded, taken, begun, free=free) == expected


@given(situation=situations(), free=st.integers(0, 60), limits=LIMITS)
def test_who_could_take_more_if_others_went_is_among_the_crowded_out(
    situation: tuple[list[Candidate], Leased], free: int, limits: Limits
) -> None:
    candidates, leased = situation
    taken = allot(candidates, leased, free=free, limits=limits)
    roomy = allot(candidates, leased, free=10_000, limits=Limits(12, 10_000, 10_000))
    crowded = {each.provider_id for each in crowded_out(candidates, leased, taken)}
    assert crowded == {name for name, count in roomy.items() if count > taken.get(name, 0)}


RATES = st.integers(1, 1000)


def burst(rate: int) -> int:
    return max(1, rate // PACE_PARTS)


def begun(rate: int, calls: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """When how many attempts began, for calls given as (milliseconds after the last one, wanted)."""
    slot, now, starts = 0, START, []
    for passed, want in calls:
        now += passed
        allowed, slot = pace(slot, now, rate=rate, want=want)
        assert 0 <= allowed <= want
        starts.append((now, allowed))
    return starts


def most_in_a_second(starts: list[tuple[int, int]]) -> int:
    most = total = first = 0
    for now, count in starts:
        total += count
        while starts[first][0] <= now - 1000:
            total -= starts[first][1]
            first += 1
        most = max(most, total)
    return most


@given(rate=RATES, calls=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 200)), max_size=60))
def test_no_second_sees_more_than_the_rate_and_a_burst(rate: int, calls: list[tuple[int, int]]) -> None:
    assert most_in_a_second(begun(rate, calls)) <= rate + burst(rate)


each_rate = pytest.mark.parametrize("rate", [1, 3, 10, 30, 70, 101, 300, 400, 700, 999, 1000])


@each_rate
def test_the_rate_holds_however_often_one_asks(rate: int) -> None:
    """Also every millisecond, so that nothing is gained by rounding."""
    asked = [(passed, want) for passed in (1, 2, 7) for want in (1, 2, 500)]
    most = {(passed, want): most_in_a_second(begun(rate, [(passed, want)] * 2500)) for passed, want in asked}
    assert {which: count for which, count in most.items() if count > rate + burst(rate)} == {}


@each_rate
def test_who_always_has_more_is_sent_most_of_the_rate(rate: int) -> None:
    starts = begun(rate, [(5, 1000)] * 2000)
    assert sum(count for _, count in starts) >= 10 * rate * 0.95


@given(rate=RATES, want=st.integers(1, 100), slot=st.integers(0, START))
def test_after_a_rest_a_few_may_go_together(rate: int, want: int, slot: int) -> None:
    allowed, _ = pace(slot, START, rate=rate, want=want)
    assert max(1, min(want, burst(rate) - 1)) <= allowed <= min(want, burst(rate))


@given(rate=RATES, calls=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=30))
def test_progress_is_made_at_the_moment_that_was_named(rate: int, calls: list[tuple[int, int]]) -> None:
    slot, now = 0, START
    for passed, want in calls:
        now += passed
        allowed, slot = pace(slot, now, rate=rate, want=want)
    moment = max(now, paced_ms(slot, rate))
    assert moment - now <= 1000
    assert pace(slot, moment, rate=rate, want=1)[0] == 1


@given(rate=RATES, now=st.integers(START, START + 1000), slot=st.integers(START, START + 3000))
def test_asking_for_nothing_changes_nothing(rate: int, now: int, slot: int) -> None:
    allowed, following = pace(slot * 1000, now, rate=rate, want=0)
    assert (allowed, following) == (0, max(slot, now) * 1000)


@given(rate=RATES, calls=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=30))
def test_slots_never_go_back(rate: int, calls: list[tuple[int, int]]) -> None:
    slots, now = [0], START
    for passed, want in calls:
        now += passed
        slots.append(pace(slots[-1], now, rate=rate, want=want)[1])
    assert all(before <= later for before, later in pairwise(slots))
