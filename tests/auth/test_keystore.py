"""Keys in the database: encrypted, and rotated once however many processes try."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from billhook.accounts.audit import Actor, read_trail
from billhook.accounts.installation import Installation, open_installation
from billhook.auth.keys import ANNOUNCEMENT, PERIOD, RETENTION, Key, KeyState, states
from billhook.auth.keystore import announce_next, keep_rotating, load_keys, replace_at_once, signing_keys
from billhook.settings import Settings
from billhook.storage.vault import WrongKey

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ACTOR = Actor("cli:test")


async def stored(installation: Installation) -> list[Key]:
    async with installation.db.reading() as tx:
        return await load_keys(tx, installation.vault)


async def rotate(installation: Installation, now: datetime) -> bool:
    return await keep_rotating(installation.db, installation.vault, await stored(installation), now=now)


@pytest.fixture
async def processes(settings: Settings) -> AsyncIterator[list[Installation]]:
    """The same installation, opened three times."""
    async with open_installation(settings) as one, open_installation(settings) as two:
        async with open_installation(settings) as three:
            yield [one, two, three]


async def test_the_private_key_is_not_readable_in_the_database(installation: Installation) -> None:
    await rotate(installation, NOW)
    async with installation.db.reading() as tx:
        row = (await tx.execute(select(signing_keys))).one()
    (key,) = await stored(installation)
    number = key.private.private_numbers().private_value
    assert number.to_bytes(32, "big") not in row.private_key


async def test_a_key_moved_to_another_id_cannot_be_read(installation: Installation) -> None:
    await rotate(installation, NOW)
    async with installation.db.transaction() as tx:
        await tx.execute(update(signing_keys).values(kid="another"))
    with pytest.raises(WrongKey):
        await stored(installation)


async def test_processes_that_start_together_make_one_key(processes: list[Installation]) -> None:
    await asyncio.gather(*(keep_rotating(each.db, each.vault, [], now=NOW) for each in processes))
    assert len(await stored(processes[0])) == 1


async def test_processes_that_rotate_together_make_one_successor(processes: list[Installation]) -> None:
    await rotate(processes[0], NOW)
    due = NOW + PERIOD - ANNOUNCEMENT
    await asyncio.gather(*(rotate(each, due) for each in processes))
    assert len(await stored(processes[0])) == 2


async def test_a_rotation_takes_its_course_by_itself(installation: Installation) -> None:
    await rotate(installation, NOW)
    assert not await rotate(installation, NOW + timedelta(days=1))
    assert await rotate(installation, NOW + PERIOD - ANNOUNCEMENT)
    assert list(states(await stored(installation), NOW + PERIOD).values()) == [KeyState.RETIRED, KeyState.ACTIVE]
    assert await rotate(installation, NOW + PERIOD + RETENTION)
    assert list(states(await stored(installation), NOW + PERIOD + RETENTION).values()) == [KeyState.ACTIVE]


async def test_a_rotation_can_be_begun_early_and_only_once(installation: Installation) -> None:
    await rotate(installation, NOW)
    async with installation.db.transaction() as tx:
        assert await announce_next(tx, installation.vault, actor=ACTOR, now=NOW)
        assert not await announce_next(tx, installation.vault, actor=ACTOR, now=NOW)
    _, following = await stored(installation)
    assert following.active_from == NOW + ANNOUNCEMENT


async def test_an_emergency_drops_all_other_keys_at_once(installation: Installation) -> None:
    await rotate(installation, NOW)
    async with installation.db.transaction() as tx:
        await announce_next(tx, installation.vault, actor=ACTOR, now=NOW)
        await replace_at_once(tx, installation.vault, actor=ACTOR, now=NOW)
        trail = await read_trail(tx)
    found = states(await stored(installation), NOW)
    assert sorted(found.values()) == [KeyState.ACTIVE, KeyState.DROPPED, KeyState.DROPPED]
    assert {entry.action for entry in trail} >= {"key.announced", "key.replaced"}
