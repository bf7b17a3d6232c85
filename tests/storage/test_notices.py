"""Word from process to process: heard once it is committed, and again after every interruption."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import text

from billhook.storage import notices
from billhook.storage.database import Database, open_database
from billhook.storage.notices import announce, follow
from tests.support import on_postgres, on_sqlite, until

CHANNEL = "billhook_test"
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
)


class Ear:
    """What a follower calls; it can be waited for."""

    def __init__(self) -> None:
        self.count = 0
        self.words: list[str] = []
        self.task: asyncio.Task[None] | None = None

    def __call__(self, word: str) -> None:
        self.count += 1
        self.words.append(word)

    async def heard(self, count: int) -> None:
        async def enough() -> bool:
            assert self.task is not None
            if self.task.done():
                pytest.fail(f"it follows no more: {self.task.exception()!r}")
            return self.count >= count

        await until(enough)


@asynccontextmanager
async def following(db: Database, ear: Ear) -> AsyncIterator[asyncio.Task[None]]:
    ear.task = task = asyncio.create_task(follow(db, CHANNEL, ear))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "AGAIN_SECONDS", 0.01)


async def say(db: Database, channel: str = CHANNEL, word: str = "") -> None:
    async with db.transaction() as tx:
        await announce(tx, channel, word)


@on_postgres
async def test_who_begins_to_follow_is_called_once_for_what_came_before(db: Database) -> None:
    ear = Ear()
    async with following(db, ear):
        await ear.heard(1)


@on_postgres
async def test_word_of_another_process_is_heard_and_ones_own_is_not(db: Database, elsewhere: Database) -> None:
    ear = Ear()
    async with following(db, ear):
        await ear.heard(1)
        for count in (2, 3):
            await say(db)
            await say(elsewhere)
            await ear.heard(count)
    assert ear.count == 3


@on_postgres
async def test_what_is_said_is_heard_word_for_word(db: Database, elsewhere: Database) -> None:
    ear, longest = Ear(), "x" * 7900
    async with following(db, ear):
        await ear.heard(1)
        for word in ("", "one", "two words", longest):
            await say(elsewhere, word=word)
        await ear.heard(5)
    assert ear.words == ["", "", "one", "two words", longest]


@on_postgres
async def test_only_what_is_committed_and_on_the_channel_is_heard(db: Database, elsewhere: Database) -> None:
    ear = Ear()
    async with following(db, ear):
        await ear.heard(1)
        await say(elsewhere, "billhook_other")
        with pytest.raises(RuntimeError, match="halfway"):
            async with elsewhere.transaction() as tx:
                await announce(tx, CHANNEL)
                raise RuntimeError("halfway")
        await say(elsewhere)
        await ear.heard(2)
    assert ear.count == 2


@on_postgres
async def test_all_who_follow_hear_it(db: Database, elsewhere: Database) -> None:
    ears = [Ear(), Ear()]
    async with following(db, ears[0]), following(db, ears[1]):
        for ear in ears:
            await ear.heard(1)
        await say(elsewhere)
        for ear in ears:
            await ear.heard(2)


@on_postgres
async def test_a_broken_connection_is_made_anew_and_what_was_missed_is_looked_for(
    db: Database, elsewhere: Database
) -> None:
    ear = Ear()
    async with following(db, ear) as task:
        await ear.heard(1)
        async with db.transaction() as tx:
            assert len((await tx.execute(text(CUT))).all()) == 1
        await ear.heard(2)
        await say(elsewhere)
        await ear.heard(3)
        assert not task.done()


@on_postgres
async def test_a_database_that_is_away_ends_no_follower(db: Database) -> None:
    nowhere = open_database("postgresql://postgres@/nobody?host=/tmp/billhook-nowhere")
    try:
        ear = Ear()
        async with following(nowhere, ear) as task:
            done, _ = await asyncio.wait([task], timeout=0.1)
            assert not done
            assert ear.count == 0
    finally:
        await nowhere.close()


class Brittle(Database):
    """Its first connection of one's own is cut before anything is said on it."""

    cuts = 0

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Any]:
        async with super().alone() as connection:
            if not Brittle.cuts:
                Brittle.cuts += 1
                connection.terminate()
            yield connection


@on_postgres
async def test_a_connection_that_is_cut_at_once_ends_no_follower(db: Database) -> None:
    Brittle.cuts, ear = 0, Ear()
    brittle = Brittle(db.writer, db.reader, is_sqlite=False)
    async with following(brittle, ear) as task:
        await ear.heard(1)
        assert not task.done()
    assert Brittle.cuts == 1


@on_sqlite
async def test_on_sqlite_there_is_nobody_else_to_hear(db: Database) -> None:
    ear = Ear()
    await say(db)
    await follow(db, CHANNEL, ear)
    assert ear.count == 0
