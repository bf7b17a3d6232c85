"""Queued deliveries of providers that take none: held, released, cancelled, given up; never too many at once."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from billhook.accounts.installation import Installation
from billhook.delivery import holding
from billhook.delivery.holding import HELD_MS, HELD_TOO_LONG
from billhook.delivery.store import FINISHED, State, deliveries
from billhook.groups.model import ProviderState
from billhook.storage.database import Transaction
from tests.delivery.support import (
    Team,
    claim,
    delivery_of,
    make_team,
    now_of,
    rows_of,
    send,
    send_one,
    set_deliveries,
    set_provider,
    set_values,
    states_of,
)
from tests.groups.setting import NOW

DAY_MS = 24 * 3_600_000

Move = Callable[[Transaction, str], Awaitable[int]]


async def do(installation: Installation, work: Callable[[Transaction], Awaitable[int]]) -> int:
    async with installation.db.transaction() as tx:
        return await work(tx)


async def move(team: Team, work: Move) -> int:
    return await do(team.installation, lambda tx: work(tx, team.provider.id))


@pytest.fixture
def short_step(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(holding, "STEP", 3)
    return 3


MOVES = [
    (holding.hold, State.PENDING, State.HELD),
    (holding.release, State.HELD, State.PENDING),
    (holding.cancel, State.PENDING, State.CANCELLED),
    (holding.cancel, State.HELD, State.CANCELLED),
]
each_move = pytest.mark.parametrize(("work", "before", "after"), MOVES)


@each_move
async def test_a_move_takes_all_of_its_provider_in_bounded_steps(
    installation: Installation, short_step: int, work: Move, before: State, after: State
) -> None:
    team = await make_team(installation)
    await send(team, 7)
    await set_values(installation.db, deliveries, state=before)
    assert [await move(team, work) for _ in range(4)] == [3, 3, 1, 0]
    assert await states_of(installation.db) == [after] * 7


@each_move
async def test_a_move_begins_with_the_oldest(
    installation: Installation, short_step: int, work: Move, before: State, after: State
) -> None:
    team = await make_team(installation)
    await send(team, 5)
    await set_values(installation.db, deliveries, state=before)
    await move(team, work)
    assert await states_of(installation.db) == [after] * 3 + [before] * 2


@each_move
async def test_a_move_leaves_others_alone(installation: Installation, work: Move, before: State, after: State) -> None:
    team = await make_team(installation, 2)
    await send(team)
    await set_values(installation.db, deliveries, state=before)
    assert await move(team, work) == 1
    others = deliveries.c.provider_id == team.providers[1].id
    assert await states_of(installation.db, others) == [before]


@pytest.mark.parametrize("work", [holding.hold, holding.release, holding.cancel])
async def test_what_is_finished_stays_finished(installation: Installation, work: Move) -> None:
    team = await make_team(installation)
    for state in FINISHED:
        await set_deliveries(installation.db, await send_one(team), state=state)
    assert await move(team, work) == 0
    assert await states_of(installation.db) == list(FINISHED)


@pytest.mark.parametrize("work", [holding.hold, holding.cancel])
async def test_what_is_under_way_is_left_alone(installation: Installation, work: Move) -> None:
    team = await make_team(installation)
    await send(team, 2)
    (leased,) = (await claim(installation, free=1)).leased
    assert await move(team, work) == 1
    row = await delivery_of(installation.db, leased.id)
    assert (row.state, row.lease) == (State.PENDING, leased.lease)


async def test_the_week_of_what_is_held_begins_when_it_is_held(installation: Installation) -> None:
    team = await make_team(installation)
    delivery_id = await send_one(team)
    await set_deliveries(installation.db, delivery_id, since_ms=1, charged=4, attempts=5)
    before = await now_of(installation.db)
    await move(team, holding.hold)
    row = await delivery_of(installation.db, delivery_id)
    assert before <= row.since_ms <= await now_of(installation.db)
    assert (row.charged, row.attempts, row.finished_ms) == (4, 5, None)


async def test_what_is_released_is_due_at_once(installation: Installation) -> None:
    team = await make_team(installation)
    delivery_id, before = await send_one(team), await now_of(installation.db)
    await set_deliveries(installation.db, delivery_id, state=State.HELD, since_ms=1, due_ms=before + DAY_MS)
    await move(team, holding.release)
    row = await delivery_of(installation.db, delivery_id)
    assert before <= row.since_ms == row.due_ms <= await now_of(installation.db)
    assert [each.id for each in (await claim(installation)).leased] == [delivery_id]


async def test_what_is_cancelled_says_when(installation: Installation) -> None:
    team = await make_team(installation)
    delivery_id, before = await send_one(team), await now_of(installation.db)
    await move(team, holding.cancel)
    assert (await delivery_of(installation.db, delivery_id)).finished_ms >= before


@pytest.mark.parametrize(
    ("values", "after"),
    [
        ({"state": ProviderState.PAUSED}, State.HELD),
        ({"state": ProviderState.DISABLED}, State.HELD),
        ({"state": ProviderState.PAUSED, "deleted_at": NOW}, State.CANCELLED),
        ({"deleted_at": NOW}, State.CANCELLED),
    ],
)
async def test_what_is_unsettled_is_held_or_cancelled(
    installation: Installation, values: dict[str, Any], after: State
) -> None:
    team = await make_team(installation)
    await send(team, 2)
    await set_provider(team, team.provider, **values)
    (unsettled,) = (await claim(installation)).unsettled
    is_deleted = unsettled.is_deleted
    assert await do(installation, lambda tx: holding.settle(tx, unsettled.id, is_deleted=is_deleted)) == 2
    assert await states_of(installation.db) == [after] * 2
    assert (await claim(installation)).unsettled == []


RECONCILED = [
    ({}, State.PENDING),
    ({"state": ProviderState.PAUSED}, State.HELD),
    ({"state": ProviderState.DISABLED}, State.HELD),
    ({"deleted_at": NOW}, State.CANCELLED),
    ({"state": ProviderState.PAUSED, "deleted_at": NOW}, State.CANCELLED),
]


@pytest.mark.parametrize(("values", "after"), RECONCILED)
async def test_what_is_held_follows_its_provider(
    installation: Installation, values: dict[str, Any], after: State
) -> None:
    team = await make_team(installation)
    await send(team, 2)
    await set_values(installation.db, deliveries, state=State.HELD)
    if values:
        await set_provider(team, team.provider, **values)
    moved = await do(installation, holding.reconcile)
    assert moved == (0 if after is State.HELD else 2)
    assert await states_of(installation.db) == [after] * 2


async def test_reconciling_is_bounded_too(installation: Installation, short_step: int) -> None:
    team = await make_team(installation)
    await send(team, 7)
    await set_values(installation.db, deliveries, state=State.HELD)
    assert [await do(installation, holding.reconcile) for _ in range(4)] == [3, 3, 1, 0]
    assert await states_of(installation.db) == [State.PENDING] * 7


async def test_what_is_held_for_a_week_is_given_up(installation: Installation) -> None:
    team = await make_team(installation)
    old, young = await send_one(team), await send_one(team)
    await set_provider(team, team.provider, state=ProviderState.PAUSED)
    now = await now_of(installation.db)
    await set_deliveries(installation.db, old, state=State.HELD, since_ms=now - HELD_MS - 1, status=503)
    await set_deliveries(installation.db, young, state=State.HELD, since_ms=now - HELD_MS + DAY_MS)
    assert await do(installation, holding.reconcile) == 1
    row = await delivery_of(installation.db, old)
    assert (row.state, row.error, row.status) == (State.FAILED, HELD_TOO_LONG, None)
    assert row.finished_ms >= now
    assert (await delivery_of(installation.db, young)).state == State.HELD


async def test_a_week_is_seven_days_and_an_old_delivery_is_not_given_up_for_its_age(
    installation: Installation,
) -> None:
    team = await make_team(installation)
    await send(team)
    await set_values(installation.db, deliveries, created_ms=1, since_ms=1, due_ms=1)
    await move(team, holding.hold)
    await set_provider(team, team.provider, state=ProviderState.PAUSED)
    assert await do(installation, holding.reconcile) == 0
    assert HELD_MS == 7 * DAY_MS
    assert len(await rows_of(installation.db, deliveries)) == 1


async def test_what_is_queued_is_counted_for_a_provider_and_for_a_group(installation: Installation) -> None:
    team, other = await make_team(installation, 2), await make_team(installation, name="Other")
    await send(team, 3)
    await send(other)
    ids = sorted(
        row.id for row in await rows_of(installation.db, deliveries, deliveries.c.provider_id == team.provider.id)
    )
    await set_deliveries(installation.db, ids[0], state=State.HELD)
    await set_deliveries(installation.db, ids[1], state=State.DELIVERED)
    async with installation.db.reading() as tx:
        assert await holding.count_queued(tx, provider_id=team.provider.id) == 2
        assert await holding.count_queued(tx, group_id=team.group.id) == 5


async def test_a_long_queue_is_counted_only_so_far(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "MOST_COUNTED", 2)
    team = await make_team(installation)
    await send(team, 5)
    async with installation.db.reading() as tx:
        assert await holding.count_queued(tx, provider_id=team.provider.id) == 3
