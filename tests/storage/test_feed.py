"""Versions follow the order of commits, also when many write at once."""

import asyncio

import pytest
from sqlalchemy import text

from billhook.storage import feed
from billhook.storage.database import Database, open_database

WRITERS = 6
CHANGES = 8


async def current(db: Database) -> int:
    async with db.reading() as tx:
        return await feed.current(tx)


async def prepare(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.execute(text("CREATE TABLE stamped (version BIGINT PRIMARY KEY)"))


async def change(db: Database) -> None:
    async with db.transaction() as tx:
        version = await feed.advance(tx)
        await tx.execute(text("INSERT INTO stamped VALUES (:version)"), {"version": version})


async def change_often(db: Database) -> None:
    for _ in range(CHANGES):
        await change(db)


async def look(db: Database, *, until_version: int) -> None:
    """Whoever reads counter N can read every row stamped N or less, at any moment."""
    seen = 0
    while seen < until_version:
        async with db.reading() as tx:
            seen = await feed.current(tx)
            count = text("SELECT count(*) FROM stamped WHERE version <= :seen")
            assert (await tx.execute(count, {"seen": seen})).scalar_one() == seen


async def test_a_new_feed_stands_at_zero(db: Database) -> None:
    assert await current(db) == 0


async def test_each_change_moves_the_feed_by_one(db: Database) -> None:
    await prepare(db)
    await change(db)
    await change(db)
    assert await current(db) == 2


async def test_a_change_that_is_rolled_back_does_not_move_it(db: Database) -> None:
    with pytest.raises(RuntimeError, match="halfway"):
        async with db.transaction() as tx:
            await feed.advance(tx)
            raise RuntimeError("halfway")
    assert await current(db) == 0


async def test_nobody_sees_a_version_before_all_its_rows(db: Database, location: str) -> None:
    await prepare(db)
    elsewhere = open_database(location)
    try:
        writers = [change_often(db if writer % 2 else elsewhere) for writer in range(WRITERS)]
        await asyncio.gather(look(db, until_version=WRITERS * CHANGES), *writers)
    finally:
        await elsewhere.close()
    assert await current(db) == WRITERS * CHANGES
