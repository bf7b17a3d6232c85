"""Deliver again: one, or all that failed; the same ids, a fresh schedule, and a job that outlives its process."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert

from billhook.accounts.audit import Actor, read_trail
from billhook.accounts.installation import Installation
from billhook.delivery import replay
from billhook.delivery.replay import Recovery, begin_recovery, find_recovery, next_recovery, redeliver, step
from billhook.delivery.store import State, attempts, deliveries, recoveries
from billhook.errors import DeliveryConflict, DeliveryNotFound, RecoveryNotFound
from billhook.storage.database import Database, open_database
from billhook.storage.ids import new_id
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
from tests.support import another_organization

ACTOR = Actor("client:test")
HOUR_MS = 3_600_000
TRIED: dict[str, Any] = {"attempts": 13, "charged": 12, "status": 500, "error": "timeout", "finished_ms": 5}


async def deliver_again(installation: Installation, delivery_id: str, actor: Actor = ACTOR) -> None:
    async with installation.db.transaction() as tx:
        await redeliver(tx, delivery_id, actor=actor, now=NOW)


@pytest.mark.parametrize("state", list(State))
async def test_a_delivery_of_any_state_can_be_delivered_again(installation: Installation, state: State) -> None:
    team = await make_team(installation)
    delivery_id, before = await send_one(team), await now_of(installation.db)
    await set_deliveries(installation.db, delivery_id, **TRIED, state=state, since_ms=1, due_ms=before + HOUR_MS)
    await deliver_again(installation, delivery_id)
    row = await delivery_of(installation.db, delivery_id)
    assert (row.state, row.charged, row.attempts) == (State.PENDING, 0, 13)
    assert (row.status, row.error, row.finished_ms) == (None, None, None)
    assert before <= row.since_ms == row.due_ms <= await now_of(installation.db)
    (leased,) = (await claim(installation)).leased
    assert (leased.id, leased.attempts, leased.charged) == (delivery_id, 13, 0)


async def test_delivering_again_is_noted(installation: Installation) -> None:
    team = await make_team(installation)
    delivery_id = await send_one(team)
    await deliver_again(installation, delivery_id)
    async with installation.db.reading() as tx:
        (entry,) = await read_trail(tx, subject=delivery_id)
    assert (entry.actor, entry.action) == ("client:test", "delivery.redelivered")
    assert entry.detail == {"provider": team.provider.id}


async def test_earlier_attempts_stay_to_be_read(installation: Installation) -> None:
    delivery_id = await send_one(await make_team(installation))
    async with installation.db.transaction() as tx:
        tried = {"delivery_id": delivery_id, "number": 1, "at_ms": 1, "detail": "{}", "body": ""}
        await tx.execute(insert(attempts).values(**tried))
    await deliver_again(installation, delivery_id)
    assert len(await rows_of(installation.db, attempts)) == 1


async def test_what_is_under_way_is_not_begun_again(installation: Installation) -> None:
    await send(await make_team(installation))
    (leased,) = (await claim(installation)).leased
    with pytest.raises(DeliveryConflict, match="at this moment"):
        await deliver_again(installation, leased.id)
    assert (await delivery_of(installation.db, leased.id)).lease == leased.lease


async def test_what_is_for_a_deleted_provider_is_not_begun_again(installation: Installation) -> None:
    team = await make_team(installation)
    delivery_id = await send_one(team)
    await set_deliveries(installation.db, delivery_id, state=State.CANCELLED)
    await set_provider(team, team.provider, deleted_at=NOW)
    with pytest.raises(DeliveryConflict, match="is deleted"):
        await deliver_again(installation, delivery_id)
    assert (await delivery_of(installation.db, delivery_id)).state == State.CANCELLED


async def test_what_is_not_there_or_another_s_is_not_found(installation: Installation) -> None:
    delivery_id = await send_one(await make_team(installation))
    stranger = Actor("client:other", await another_organization(installation))
    for wanted, actor in ((new_id("dlv"), ACTOR), ("\0", ACTOR), ("", ACTOR), (delivery_id, stranger)):
        with pytest.raises(DeliveryNotFound):
            await deliver_again(installation, wanted, actor)


@pytest.fixture
def short_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "STEP", 3)


async def failed_of(team: Team, count: int, *, ago_ms: int = 60_000) -> list[str]:
    ids = [queued.id for accepted in await send(team, count) for queued in accepted.deliveries]
    finished = await now_of(team.installation.db) - ago_ms
    await set_deliveries(team.installation.db, *ids, **TRIED | {"finished_ms": finished}, state=State.FAILED)
    return ids


async def begin(team: Team, *, ago_ms: int = HOUR_MS) -> Recovery:
    since = await now_of(team.installation.db) - ago_ms
    async with team.installation.db.transaction() as tx:
        return await begin_recovery(tx, team.provider, since_ms=since, actor=ACTOR, now=NOW)


async def go_on(db: Database) -> Recovery | None:
    """What a worker does when it finds time."""
    async with db.transaction() as tx:
        found = await next_recovery(tx)
        return None if found is None else await step(tx, found)


async def kept(db: Database, recovery: Recovery) -> Recovery:
    async with db.reading() as tx:
        return await find_recovery(tx, recovery.provider_id, recovery.id)


async def test_all_that_failed_is_pending_again_under_its_own_id(installation: Installation) -> None:
    team = await make_team(installation)
    ids = await failed_of(team, 4)
    recovery = await begin(team)
    assert (recovery.state, recovery.recovered) == ("finished", 4)
    rows = await rows_of(installation.db, deliveries)
    assert [row.id for row in rows] == ids
    assert {(row.state, row.charged, row.attempts, row.error) for row in rows} == {(State.PENDING, 0, 13, None)}
    assert {each.id for each in (await claim(installation)).leased} == set(ids)


async def test_a_long_recovery_goes_step_by_step_and_shows_its_progress(
    installation: Installation, short_step: None
) -> None:
    team = await make_team(installation)
    await failed_of(team, 7)
    begun = await begin(team)
    assert (begun.state, begun.recovered, begun.finished_ms) == ("running", 3, None)
    progress = []
    while (moved := await go_on(installation.db)) is not None:
        progress.append((moved.state, moved.recovered))
        assert (await kept(installation.db, begun)).recovered == moved.recovered
    assert progress == [("running", 6), ("finished", 7)]
    assert await states_of(installation.db) == [State.PENDING] * 7
    done = await kept(installation.db, begun)
    assert (done.state, done.created_ms) == ("finished", begun.created_ms)
    assert (done.finished_ms or 0) >= begun.created_ms


async def test_a_recovery_goes_on_after_a_restart(installation: Installation, location: str, short_step: None) -> None:
    team = await make_team(installation)
    ids = await failed_of(team, 5)
    begun = await begin(team)
    await installation.db.close()
    reopened = open_database(location)
    try:
        assert (await kept(reopened, begun)) == begun
        moved = await go_on(reopened)
        assert moved is not None
        assert (moved.id, moved.state, moved.recovered) == (begun.id, "finished", 5)
        assert [row.id for row in await rows_of(reopened, deliveries)] == ids
        assert await states_of(reopened) == [State.PENDING] * 5
    finally:
        await reopened.close()


async def test_a_step_that_is_rolled_back_is_taken_again(installation: Installation, short_step: None) -> None:
    team = await make_team(installation)
    await failed_of(team, 5)
    begun = await begin(team)
    with pytest.raises(RuntimeError, match="killed"):
        async with installation.db.transaction() as tx:
            await step(tx, begun)
            raise RuntimeError("killed")
    assert await kept(installation.db, begun) == begun
    moved = await go_on(installation.db)
    assert moved is not None
    assert (moved.recovered, moved.state) == (5, "finished")


async def test_what_a_step_returns_is_what_is_kept(installation: Installation) -> None:
    team = await make_team(installation)
    begun = await begin(team)
    earlier = begun.until_ms - HOUR_MS
    await set_values(installation.db, recoveries, state="running", until_ms=earlier, created_ms=earlier)
    moved = await go_on(installation.db)
    assert moved is not None
    assert moved == await kept(installation.db, begun)


async def test_only_what_failed_since_then_and_before_it_began_is_taken(
    installation: Installation, short_step: None
) -> None:
    team = await make_team(installation)
    long_ago = await failed_of(team, 4, ago_ms=2 * HOUR_MS)
    within = await failed_of(team, 2, ago_ms=HOUR_MS // 2)
    later = await failed_of(team, 1, ago_ms=-HOUR_MS)
    recovery: Recovery | None = await begin(team)
    while recovery is not None and recovery.state == "running":
        recovery = await go_on(installation.db)
    assert recovery is not None
    assert recovery.recovered == 2
    pending = [row.id for row in await rows_of(installation.db, deliveries) if row.state == State.PENDING]
    assert pending == within
    assert await states_of(installation.db, deliveries.c.id.in_(long_ago + later)) == [State.FAILED] * 5


async def test_what_fails_again_meanwhile_is_not_taken_twice(installation: Installation, short_step: None) -> None:
    team = await make_team(installation)
    ids = await failed_of(team, 5)
    begun = await begin(team)
    await set_deliveries(installation.db, *ids[:3], state=State.FAILED, finished_ms=begun.until_ms - 1)
    moved = await go_on(installation.db)
    assert moved is not None
    assert moved.recovered == 5
    assert await states_of(installation.db) == [State.FAILED] * 3 + [State.PENDING] * 2


@pytest.mark.parametrize("state", [State.PENDING, State.DELIVERED, State.HELD, State.CANCELLED])
async def test_what_did_not_fail_is_left_alone(installation: Installation, state: State) -> None:
    team = await make_team(installation)
    (delivery_id,) = await failed_of(team, 1)
    await set_deliveries(installation.db, delivery_id, state=state)
    before = await delivery_of(installation.db, delivery_id)
    assert (await begin(team)).recovered == 0
    assert await delivery_of(installation.db, delivery_id) == before


async def test_what_failed_for_another_provider_is_left_alone(installation: Installation) -> None:
    team = await make_team(installation, 2)
    await failed_of(team, 1)
    assert (await begin(team)).recovered == 1
    assert sorted(await states_of(installation.db)) == [State.FAILED, State.PENDING]


async def test_a_recovery_is_noted_and_found_under_its_provider_only(installation: Installation) -> None:
    team = await make_team(installation, 2)
    begun = await begin(team)
    async with installation.db.reading() as tx:
        entry = (await read_trail(tx, subject=team.provider.id))[0]
        assert (entry.action, entry.detail) == ("provider.recovery-begun", {"recovery": begun.id})
        for provider, recovery_id in ((team.providers[1], begun.id), (team.provider, "x"), (team.provider, "\0")):
            with pytest.raises(RecoveryNotFound):
                await find_recovery(tx, provider.id, recovery_id)


async def test_nobody_works_on_a_recovery_that_is_over(installation: Installation) -> None:
    await begin(await make_team(installation))
    assert await go_on(installation.db) is None


async def test_two_recoveries_are_taken_in_their_order(installation: Installation, short_step: None) -> None:
    team, other = await make_team(installation), await make_team(installation, name="Other")
    await failed_of(team, 4)
    await failed_of(other, 4)
    first, second = await begin(team), await begin(other)
    moved = [await go_on(installation.db) for _ in range(3)]
    assert [each and replace(each, finished_ms=None).id for each in moved] == [first.id, second.id, None]
