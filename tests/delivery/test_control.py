"""Delete, pause and resume, with what is queued: cancelled, held, released, and all in one transaction."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation
from billhook.auth.manage import Author
from billhook.delivery import control, holding
from billhook.delivery.context import CHANNEL
from billhook.delivery.store import State, deliveries
from billhook.errors import GroupNotFound, ProviderNotFound
from billhook.groups.model import Provider, ProviderState
from billhook.storage.database import Transaction
from billhook.storage.ids import new_id
from tests.delivery.support import (
    Team,
    claim,
    make_team,
    now_of,
    provider_of,
    rows_of,
    send,
    set_deliveries,
    set_provider,
    states_of,
)
from tests.groups.setting import NOW
from tests.support import OPERATOR, another_organization, on_postgres, until

Change = Callable[..., Awaitable[Any]]


async def change(team: Team, work: Change, author: Author = OPERATOR) -> Provider:
    """Pause or resume its first provider."""
    async with team.installation.db.transaction() as tx:
        changed: Provider = await work(
            tx, team.installation.vault, team.group.id, team.provider.id, author=author, now=NOW
        )
        return changed


async def delete_provider(team: Team, provider: Provider, author: Author = OPERATOR) -> int:
    async with team.installation.db.transaction() as tx:
        return await control.delete_provider(tx, team.group.id, provider.id, author=author, now=NOW)


async def delete_group(team: Team, author: Author = OPERATOR) -> int:
    async with team.installation.db.transaction() as tx:
        return await control.delete_group(tx, team.group.id, author=author, now=NOW)


def of(provider: Provider) -> Any:
    return deliveries.c.provider_id == provider.id


async def test_what_is_queued_for_a_deleted_group_is_cancelled(installation: Installation) -> None:
    team, other = await make_team(installation, 2), await make_team(installation, name="Other")
    await send(team, 3)
    await send(other)
    assert await delete_group(team) == 6
    for provider in team.providers:
        assert await states_of(installation.db, of(provider)) == [State.CANCELLED] * 3
    assert await states_of(installation.db, of(other.provider)) == [State.PENDING]


async def test_what_is_queued_and_held_for_a_deleted_provider_is_cancelled(installation: Installation) -> None:
    team = await make_team(installation, 2)
    first, *_ = await send(team, 3)
    held = next(each.id for each in first.deliveries if each.provider_id == team.provider.id)
    await set_deliveries(installation.db, held, state=State.HELD)
    assert await delete_provider(team, team.provider) == 3
    assert await states_of(installation.db, of(team.provider)) == [State.CANCELLED] * 3
    assert await states_of(installation.db, of(team.providers[1])) == [State.PENDING] * 3


@pytest.mark.parametrize("waits_ms", [0, 3_600_000], ids=["due", "not due yet"])
async def test_what_is_too_much_to_cancel_at_once_follows(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, waits_ms: int
) -> None:
    monkeypatch.setattr(holding, "STEP", 2)
    team = await make_team(installation)
    queued = [each.deliveries[0].id for each in await send(team, 5)]
    await set_deliveries(installation.db, *queued, due_ms=await now_of(installation.db) + waits_ms)
    assert await delete_provider(team, team.provider) == 2
    while unsettled := (await claim(installation)).unsettled:
        async with installation.db.transaction() as tx:
            assert await holding.settle(tx, unsettled[0].id, is_deleted=unsettled[0].is_deleted) > 0
    assert await states_of(installation.db) == [State.CANCELLED] * 5


async def test_what_is_finished_or_under_way_is_not_cancelled(installation: Installation) -> None:
    team = await make_team(installation)
    first, second = (each.deliveries[0].id for each in await send(team, 2))
    await set_deliveries(installation.db, first, state=State.DELIVERED)
    (leased,) = (await claim(installation)).leased
    assert await delete_provider(team, team.provider) == 0
    assert await states_of(installation.db) == [State.DELIVERED, State.PENDING]
    assert leased.id == second


async def test_pausing_holds_and_resuming_releases(installation: Installation) -> None:
    team = await make_team(installation, 2)
    await send(team, 2)
    assert (await change(team, control.pause)).state is ProviderState.PAUSED
    assert await states_of(installation.db, of(team.provider)) == [State.HELD] * 2
    assert await states_of(installation.db, of(team.providers[1])) == [State.PENDING] * 2
    assert (await change(team, control.resume)).state is ProviderState.ACTIVE
    assert await states_of(installation.db, of(team.provider)) == [State.PENDING] * 2
    assert len((await claim(installation)).leased) == 4


async def test_pausing_and_resuming_twice_changes_nothing_more(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team)
    for work, state in ((control.pause, State.HELD), (control.resume, State.PENDING)):
        for _ in range(2):
            await change(team, work)
            assert await states_of(installation.db) == [state]


async def test_resuming_a_disabled_provider_makes_it_well_again(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team)
    await set_provider(
        team,
        team.provider,
        state=ProviderState.DISABLED,
        state_reason="every attempt failed",
        failures=50,
        failed_attempts=50,
        openings=9,
        open_until_ms=2**50,
        waits_until_ms=2**50,
        failing_since_ms=1,
    )
    async with installation.db.transaction() as tx:
        await holding.hold(tx, team.provider.id)
    await change(team, control.resume)
    row = await provider_of(team)
    assert (row.state, row.state_reason) == (ProviderState.ACTIVE, None)
    assert (row.failures, row.failed_attempts, row.openings, row.failing_since_ms) == (0, 0, 0, None)
    assert len((await claim(installation)).leased) == 1


async def test_what_is_too_much_to_release_at_once_follows(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "STEP", 2)
    team = await make_team(installation)
    await send(team, 5)
    await change(team, control.pause)
    while unsettled := (await claim(installation)).unsettled:
        async with installation.db.transaction() as tx:
            await holding.settle(tx, unsettled[0].id, is_deleted=unsettled[0].is_deleted)
    assert await states_of(installation.db) == [State.HELD] * 5
    await change(team, control.resume)
    assert (await states_of(installation.db)).count(State.PENDING) == 2
    for _ in range(2):
        async with installation.db.transaction() as tx:
            await holding.reconcile(tx)
    assert await states_of(installation.db) == [State.PENDING] * 5


@on_postgres
async def test_workers_hear_that_a_provider_was_resumed(installation: Installation) -> None:
    team, heard = await make_team(installation), list[str]()

    async def was_heard() -> bool:
        return bool(heard)

    async with installation.db.alone() as connection:
        await connection.add_listener(CHANNEL, lambda _connection, _pid, channel, _payload: heard.append(channel))
        await change(team, control.pause)
        await change(team, control.resume)
        await until(was_heard)
    assert heard == [CHANNEL]


async def test_nothing_of_another_organization_can_be_touched(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team)
    stranger = Author(Actor("client:x"), await another_organization(installation), frozenset())
    works: list[Callable[[], Awaitable[Any]]] = [
        lambda: change(team, control.pause, stranger),
        lambda: change(team, control.resume, stranger),
        lambda: delete_provider(team, team.provider, stranger),
        lambda: delete_group(team, stranger),
    ]
    for work in works:
        with pytest.raises(GroupNotFound):
            await work()
    assert await states_of(installation.db) == [State.PENDING]


async def test_what_is_not_there_is_named(installation: Installation) -> None:
    team = await make_team(installation)
    await delete_provider(team, team.provider)
    works: list[Change] = [control.pause, control.resume]
    for work in works:
        with pytest.raises(ProviderNotFound):
            await change(team, work)
    with pytest.raises(ProviderNotFound):
        await delete_provider(team, team.provider)
    await delete_group(team)
    with pytest.raises(GroupNotFound):
        await delete_group(team)
    assert new_id("grp") != team.group.id


async def test_a_change_that_is_rolled_back_moves_nothing(installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, 2)

    async def halfway(tx: Transaction) -> None:
        await control.delete_group(tx, team.group.id, author=OPERATOR, now=NOW)
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        async with installation.db.transaction() as tx:
            await halfway(tx)
    assert await states_of(installation.db) == [State.PENDING] * 2
    assert len(await rows_of(installation.db, deliveries)) == 2
