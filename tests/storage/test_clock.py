"""The database's clock: whole milliseconds since 1970, the same for a statement and in an index."""

from datetime import UTC, datetime

from sqlalchemy import bindparam, func, select, text

from billhook.storage.clock import now_ms
from billhook.storage.database import Database, open_database
from tests.support import on_postgres

YEAR_2020 = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp() * 1000)
YEAR_2100 = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
SECONDS = {"sqlite": "SELECT strftime('%s', 'now')", "postgresql": "SELECT floor(extract(epoch FROM now()))"}


async def now_of(db: Database) -> int:
    async with db.reading() as tx:
        found = (await tx.execute(select(now_ms()))).scalar_one()
    assert isinstance(found, int)
    return found


async def test_it_tells_whole_milliseconds_since_1970(db: Database) -> None:
    assert YEAR_2020 < await now_of(db) < YEAR_2100


async def test_it_agrees_with_the_database_s_own_words(db: Database) -> None:
    async with db.reading() as tx:
        seconds = text(SECONDS[tx.dialect.name])
        before = int((await tx.execute(seconds)).scalar_one())
        shown = (await tx.execute(select(now_ms()))).scalar_one()
    async with db.reading() as tx:
        after = int((await tx.execute(seconds)).scalar_one())
    assert before <= shown // 1000 <= after


async def test_it_does_not_go_back_between_statements_and_processes(db: Database, location: str) -> None:
    elsewhere = open_database(location)
    try:
        seen = [await now_of(each) for each in (db, elsewhere, db, elsewhere)]
    finally:
        await elsewhere.close()
    assert seen == sorted(seen)


async def test_it_is_one_moment_within_a_statement(db: Database) -> None:
    async with db.reading() as tx:
        first, second = (await tx.execute(select(now_ms().label("a"), now_ms().label("b")))).one()
    assert first == second


async def test_it_can_be_reckoned_with(db: Database) -> None:
    async with db.reading() as tx:
        query = select(now_ms() + 60_000 - now_ms(), func.abs(now_ms() - bindparam("moment", YEAR_2020)) > 0)
        difference, is_later = (await tx.execute(query)).one()
    assert (difference, bool(is_later)) == (60_000, True)


@on_postgres
async def test_it_does_not_stand_still_in_a_long_transaction(db: Database) -> None:
    async with db.reading() as tx:
        first = (await tx.execute(select(now_ms()))).scalar_one()
        await tx.execute(text("SELECT pg_sleep(0.005)"))
        assert (await tx.execute(select(now_ms()))).scalar_one() > first
