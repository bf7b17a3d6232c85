"""The audit trail: written together with the change, read newest first."""

import time
from datetime import UTC, datetime

import pytest

from billhook.accounts.audit import Actor, Entry, note, read_trail
from billhook.accounts.organizations import create_organization
from billhook.storage.database import Database

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SYSTEM = Actor("system")


async def note_at(db: Database, millisecond: int, action: str, *, subject: str = "cli_1") -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: millisecond * 1_000_000)
        async with db.transaction() as tx:
            await note(tx, SYSTEM, action, subject=subject, now=NOW)


async def trail(db: Database, *, subject: str | None = None, limit: int = 100) -> list[Entry]:
    async with db.reading() as tx:
        return await read_trail(tx, subject=subject, limit=limit)


async def test_an_entry_says_who_did_what_to_what_and_when(db: Database) -> None:
    async with db.transaction() as tx:
        owner = await create_organization(tx, "Acme", now=NOW)
        await note(tx, Actor("cli:ada", owner.id), "client.rotated", subject="cli_1", now=NOW, grace_seconds=3600.0)
    assert await trail(db) == [Entry(NOW, "cli:ada", "client.rotated", "cli_1", {"grace_seconds": 3600.0})]


async def test_the_newest_entry_comes_first(db: Database) -> None:
    for moment, action in enumerate(["created", "rotated", "revoked"], 1):
        await note_at(db, moment, action)
    assert [entry.action for entry in await trail(db)] == ["revoked", "rotated", "created"]


async def test_a_limit_keeps_the_newest(db: Database) -> None:
    for moment, action in enumerate(["created", "rotated", "revoked"], 1):
        await note_at(db, moment, action)
    assert [entry.action for entry in await trail(db, limit=1)] == ["revoked"]


async def test_one_subject_can_be_asked_for(db: Database) -> None:
    await note_at(db, 1, "created", subject="cli_1")
    await note_at(db, 2, "created", subject="cli_2")
    assert [entry.subject for entry in await trail(db, subject="cli_1")] == ["cli_1"]


async def test_a_change_that_is_undone_leaves_no_entry(db: Database) -> None:
    with pytest.raises(RuntimeError, match="halfway"):
        async with db.transaction() as tx:
            await note(tx, SYSTEM, "created", subject="cli_1", now=NOW)
            raise RuntimeError("halfway")
    assert await trail(db) == []


async def test_entries_of_one_millisecond_keep_their_order(db: Database) -> None:
    actions = [f"change {turn:02}" for turn in range(20)]
    for action in actions:
        await note_at(db, 1, action)
    assert [entry.action for entry in await trail(db)] == actions[::-1]
