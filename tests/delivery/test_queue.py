"""Claims, leases and the sweep: what is somebody's is nobody else's, and nobody waits behind another's backlog."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from billhook.accounts.installation import Installation
from billhook.delivery import queue
from billhook.delivery.fairness import Limits
from billhook.delivery.queue import CLASH_MS, LEASE_MS, NEVER, Leased
from billhook.delivery.store import State, deliveries
from billhook.groups.directory import Directory
from billhook.groups.model import ProviderState
from billhook.storage.database import Database, Transaction, open_database
from billhook.storage.ids import new_id
from tests.delivery.support import (
    LIMITS,
    Halting,
    by_provider,
    claim,
    delivery_of,
    fill,
    make_team,
    now_of,
    plan_of,
    provider_of,
    rows_of,
    send,
    send_one,
    set_deliveries,
    set_provider,
    set_values,
    statements_of,
)
from tests.groups.setting import NOW
from tests.support import another_organization, on_postgres

HOUR_MS = 3_600_000


@asynccontextmanager
async def elsewhere(location: str) -> AsyncIterator[Database]:
    """The database as another process has it."""
    opened = open_database(location)
    try:
        yield opened
    finally:
        await opened.close()


async def in_transaction(installation: Installation, work: Callable[[Transaction], Awaitable[Any]]) -> Any:
    async with installation.db.transaction() as tx:
        return await work(tx)


def names(leased: list[Leased]) -> list[tuple[str, str]]:
    return [(each.id, each.lease) for each in leased]


async def test_a_claim_stamps_a_lease_on_what_it_takes(installation: Installation) -> None:
    team = await make_team(installation)
    delivery_id = await send_one(team)
    (leased,) = (await claim(installation)).leased
    row = await delivery_of(installation.db, delivery_id)
    assert (leased.id, leased.lease) == (delivery_id, row.lease)
    assert leased.claimed_ms + LEASE_MS <= row.lease_until_ms <= await now_of(installation.db) + LEASE_MS
    assert row.state == State.PENDING


async def test_what_is_leased_says_all_that_an_attempt_needs(installation: Installation) -> None:
    team = await make_team(installation)
    delivery_id = await send_one(team)
    await set_deliveries(installation.db, delivery_id, attempts=3, charged=2, since_ms=5, due_ms=7)
    (leased,) = (await claim(installation)).leased
    assert leased.provider == team.provider
    assert (leased.title, leased.content) == ("Title 0", "Content")
    assert (leased.attempts, leased.charged, leased.since_ms, leased.due_ms) == (3, 2, 5, 7)


async def test_what_is_leased_is_not_claimed_again(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, 3)
    assert len((await claim(installation)).leased) == 3
    assert (await claim(installation)).leased == []


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.HELD, State.CANCELLED])
async def test_only_what_is_pending_is_claimed(installation: Installation, state: State) -> None:
    await set_deliveries(installation.db, await send_one(await make_team(installation)), state=state)
    claimed = await claim(installation)
    assert (claimed.leased, claimed.unsettled, claimed.wake_ms) == ([], [], NEVER)


async def test_an_empty_queue_has_nothing_to_wake_for(installation: Installation) -> None:
    claimed = await claim(installation)
    assert claimed == queue.Claim(claimed.asked_at, [], [], awaited=set(), next_provider="", wake_ms=NEVER, oldest_ms=0)


async def test_what_is_due_later_is_claimed_later(installation: Installation) -> None:
    team = await make_team(installation)
    delivery_id, now = await send_one(team), await now_of(installation.db)
    await set_deliveries(installation.db, delivery_id, due_ms=now + HOUR_MS)
    claimed = await claim(installation)
    assert claimed.leased == []
    assert 0 < claimed.wake_ms <= HOUR_MS
    assert claimed.oldest_ms == 0
    await set_deliveries(installation.db, delivery_id, due_ms=now - HOUR_MS)
    claimed = await claim(installation)
    assert [each.id for each in claimed.leased] == [delivery_id]
    assert claimed.oldest_ms >= HOUR_MS


async def test_the_longest_due_come_first(installation: Installation) -> None:
    team = await make_team(installation)
    sent = [accepted.deliveries[0].id for accepted in await send(team, 6)]
    for place, delivery_id in enumerate(reversed(sent)):
        await set_deliveries(installation.db, delivery_id, due_ms=1000 + place)
    taken = await claim(installation, limits=Limits(2, 50, 500))
    assert {each.id for each in taken.leased} == set(sent[-2:])


async def test_the_longest_due_come_first_beside_a_provider_that_takes_more(installation: Installation) -> None:
    team = await make_team(installation, 2)
    for accepted in await send(team, 6):
        own, _ = accepted.deliveries
        await set_deliveries(installation.db, own.id, due_ms=1000)
    last = own.id
    await set_deliveries(installation.db, last, due_ms=500)
    await set_provider(team, team.provider, openings=1)  # one probe
    taken = (await claim(installation)).leased
    assert by_provider(taken, team) == [1, 6]
    assert [each.id for each in taken if each.provider.id == team.provider.id] == [last]


@pytest.mark.parametrize(
    ("free", "limits", "taken"),
    [
        (500, LIMITS, [10, 10, 10]),
        (500, Limits(4, 50, 500), [4, 4, 4]),
        (500, Limits(10, 15, 500), [5, 5, 5]),
        (7, LIMITS, [3, 2, 2]),
        (0, LIMITS, [0, 0, 0]),
    ],
)
async def test_no_more_are_taken_than_the_limits_allow(
    installation: Installation, free: int, limits: Limits, taken: list[int]
) -> None:
    team = await make_team(installation, 3)
    await send(team, 12)
    claimed = await claim(installation, free=free, limits=limits)
    assert by_provider(claimed.leased, team) == taken
    assert await now_of(installation.db) > 0


async def test_the_limits_hold_over_two_workers(installation: Installation, location: str) -> None:
    team = await make_team(installation, 3)
    await send(team, 12)
    limits = Limits(6, 15, 500)
    first = await claim(installation, free=9, limits=limits)
    async with elsewhere(location) as db:
        second = await claim(installation, limits=limits, db=db)
        third = await claim(installation, limits=limits, db=db)
    assert [len(each.leased) for each in (first, second, third)] == [9, 6, 0]
    assert max(by_provider(first.leased + second.leased, team)) <= 6
    assert not {each.id for each in first.leased} & {each.id for each in second.leased}


async def test_a_full_organization_leaves_room_for_another(installation: Installation) -> None:
    full = await make_team(installation, 3)
    other = await make_team(installation, organization_id=await another_organization(installation))
    await send(full, 12)
    await send(other, 2)
    claimed = await claim(installation, limits=Limits(10, 5, 500))
    assert (sum(by_provider(claimed.leased, full)), by_provider(claimed.leased, other)) == (5, [2])


@on_postgres
async def test_two_workers_do_not_claim_for_one_organization_at_once(installation: Installation) -> None:
    mine = await make_team(installation)
    other = await make_team(installation, organization_id=await another_organization(installation))
    await send(mine, 2)
    await send(other)
    async with installation.db.transaction() as tx:
        first = await queue.claim(tx, Directory(installation.vault), after="", free=1, limits=LIMITS)
        assert len(first.leased) == 1
        clashed = await claim(installation)
        assert (clashed.leased, clashed.wake_ms) == ([], CLASH_MS)
    assert len((await claim(installation)).leased) == 2


async def test_a_claim_goes_on_behind_the_providers_it_has_seen(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "PAGE", 4)
    team = await make_team(installation, 10)
    await send(team)
    after, seen = "", list[list[int]]()
    for _ in range(3):
        claimed = await claim(installation, after=after)
        seen.append(by_provider(claimed.leased, team))
        after = claimed.next_provider
    assert [sum(each) for each in seen] == [4, 4, 2]
    assert [sum(each) for each in zip(*seen, strict=True)] == [1] * 10
    assert after == ""


async def test_behind_the_last_provider_the_walk_begins_anew(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "PAGE", 2)
    team = await make_team(installation, 2)
    await send(team)
    first = await claim(installation, free=0)
    assert first.next_provider == max(each.id for each in team.providers)
    assert (await claim(installation, after=first.next_provider)).next_provider == ""


@pytest.mark.parametrize("column", ["open_until_ms", "waits_until_ms"])
async def test_a_provider_that_may_not_be_asked_is_passed_over(installation: Installation, column: str) -> None:
    team = await make_team(installation, 2)
    await send(team, 3)
    await set_provider(team, team.provider, **{column: await now_of(installation.db) + 10_000})
    claimed = await claim(installation)
    assert by_provider(claimed.leased, team) == [0, 3]
    assert 0 < claimed.wake_ms <= 10_000
    assert claimed.unsettled == []


async def test_after_an_opening_one_probe_is_under_way_at_a_time(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, 3)
    await set_provider(team, team.provider, openings=1, open_until_ms=await now_of(installation.db) - 1)
    assert len((await claim(installation)).leased) == 1
    assert (await claim(installation)).leased == []


@pytest.mark.parametrize(
    "values",
    [{"state": ProviderState.PAUSED}, {"state": ProviderState.DISABLED}, {"deleted_at": NOW}],
    ids=["paused", "disabled", "deleted"],
)
async def test_due_work_of_a_provider_that_takes_none_is_named(
    installation: Installation, values: dict[str, Any]
) -> None:
    team = await make_team(installation, 2)
    await send(team)
    await set_provider(team, team.provider, **values)
    claimed = await claim(installation)
    assert by_provider(claimed.leased, team) == [0, 1]
    assert [each.id for each in claimed.unsettled] == [team.provider.id]


async def test_a_rate_limit_lets_a_few_begin_and_says_when_the_next_may(installation: Installation) -> None:
    team = await make_team(installation, 2)
    await send(team, 3)
    await set_provider(team, team.provider, rate_limit=1)
    claimed = await claim(installation)
    assert by_provider(claimed.leased, team) == [1, 3]
    assert 0 < claimed.wake_ms <= 1000


async def test_a_rate_limited_provider_is_passed_over_until_its_next_slot(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, 3)
    await set_provider(team, team.provider, rate_limit=1, next_slot_us=(await now_of(installation.db) + HOUR_MS) * 1000)
    claimed = await claim(installation)
    assert claimed.leased == []
    assert 0 < claimed.wake_ms <= HOUR_MS


async def test_a_rate_limit_is_one_for_all_workers(installation: Installation, location: str) -> None:
    team = await make_team(installation)
    await send(team, 20)
    await set_provider(team, team.provider, rate_limit=20)
    first = (await claim(installation)).leased
    async with elsewhere(location) as db:
        second = (await claim(installation, db=db)).leased
    assert len(first) == 2
    assert len(second) <= 2
    following = (await provider_of(team)).next_slot_us
    assert following >= (first[0].claimed_ms + (len(first) + len(second)) * 50) * 1000


@on_postgres
async def test_a_rate_limit_holds_for_two_workers_that_look_at_the_same_moment(
    installation: Installation, location: str
) -> None:
    """One has read how the provider is; before it goes on, the other takes all slots and commits."""
    team = await make_team(installation)
    await send(team, 3)
    await set_provider(team, team.provider, rate_limit=1)
    async with elsewhere(location) as db, db.transaction() as tx:
        halting = Halting(tx)
        late = asyncio.create_task(
            queue.claim(cast(Transaction, halting), Directory(installation.vault), after="", free=500, limits=LIMITS)
        )
        await halting.halted.wait()
        assert len((await claim(installation)).leased) == 1
        await set_provider(team, team.provider, next_slot_us=(await now_of(installation.db) + HOUR_MS) * 1000)
        halting.go_on.set()
        assert (await late).leased == []


HEALTHY_NO_MORE: list[dict[str, Any]] = [
    {"openings": 1, "open_until_ms": 2**52},
    {"waits_until_ms": 2**52},
    {"state": ProviderState.DISABLED},
    {"deleted_at": NOW},
]


@pytest.mark.parametrize("changed", HEALTHY_NO_MORE, ids=["breaker", "wait", "disabled", "deleted"])
@on_postgres
async def test_what_another_worker_finds_out_at_the_same_moment_holds_for_both(
    installation: Installation, location: str, changed: dict[str, Any]
) -> None:
    """One has read how the provider is; before it goes on, the other records what came of its attempts."""
    team = await make_team(installation)
    await send(team, 3)
    async with elsewhere(location) as db, db.transaction() as tx:
        halting = Halting(tx)
        late = asyncio.create_task(
            queue.claim(cast(Transaction, halting), Directory(installation.vault), after="", free=500, limits=LIMITS)
        )
        await halting.halted.wait()
        await set_provider(team, team.provider, **changed)
        halting.go_on.set()
        assert (await late).leased == []


async def test_places_that_others_could_not_fill_are_taken_by_the_next_claim(installation: Installation) -> None:
    team = await make_team(installation, 6)
    last = team.providers[-1]
    await send(team, 9)
    kept = deliveries.c.provider_id == last.id
    await set_values(installation.db, deliveries, ~kept, state=State.DELIVERED)
    for provider in team.providers[:-1]:
        first = (await rows_of(installation.db, deliveries, deliveries.c.provider_id == provider.id))[0]
        await set_deliveries(installation.db, first.id, state=State.PENDING)
    limits = Limits(10, 14, 500)
    leased = (await claim(installation, limits=limits)).leased
    leased += (await claim(installation, limits=limits)).leased
    assert by_provider(leased, team) == [1] * 5 + [9]


async def test_a_lease_is_renewed_by_its_holder_only(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, 2)
    mine, other = (await claim(installation)).leased
    await set_deliveries(installation.db, mine.id, other.id, lease_until_ms=1)
    held = [(mine.id, mine.lease), (other.id, new_id("lse")), (new_id("dlv"), mine.lease)]
    assert await in_transaction(installation, lambda tx: queue.renew(tx, held)) == {mine.id}
    assert (await delivery_of(installation.db, mine.id)).lease_until_ms > mine.claimed_ms
    assert (await delivery_of(installation.db, other.id)).lease_until_ms == 1


async def test_what_is_given_back_can_be_claimed_at_once(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, 2)
    leased = (await claim(installation)).leased
    await in_transaction(installation, lambda tx: queue.release(tx, names(leased)))
    again = (await claim(installation)).leased
    assert {each.id for each in again} == {each.id for each in leased}
    assert [(each.attempts, each.charged) for each in again] == [(0, 0)] * 2


async def test_nobody_gives_back_what_is_another_s(installation: Installation) -> None:
    await send(await make_team(installation))
    (leased,) = (await claim(installation)).leased
    stale = leased._replace(lease=new_id("lse"))
    await in_transaction(installation, lambda tx: queue.release(tx, names([stale])))
    assert (await delivery_of(installation.db, leased.id)).lease == leased.lease


async def test_the_sweep_takes_lapsed_leases_only(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, 3)
    lapsed, *fresh = (await claim(installation)).leased
    await set_deliveries(installation.db, lapsed.id, lease_until_ms=await now_of(installation.db) - 1)
    assert await in_transaction(installation, queue.sweep) == 1
    assert [each.id for each in (await claim(installation)).leased] == [lapsed.id]
    assert await in_transaction(installation, lambda tx: queue.renew(tx, names([lapsed, *fresh]))) == {
        each.id for each in fresh
    }
    assert await in_transaction(installation, queue.sweep) == 0


async def test_a_claim_walks_the_index_of_what_is_ready_however_much_there_is(installation: Installation) -> None:
    await fill(await make_team(installation, 20))
    async with statements_of(installation.db) as statements:
        assert len((await claim(installation, limits=Limits(10, 500, 500))).leased) == 10 + 19
    about = [(statement, values) for statement, values in statements if "deliveries" in statement]
    lines = [line for statement, values in about for line in await plan_of(installation.db, statement, values)]
    assert len(about) == 4  # look, count, take, stamp
    assert any("ix_deliveries_ready" in line for line in lines)
    scans = [line for line in lines if re.search("SCAN (deliveries|ready)|Seq Scan on deliveries", line)]
    assert [line for line in scans if "ix_deliveries_leased" not in line] == []
