"""Moments keep their instant on both engines."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Dialect, Integer, MetaData, Table, insert, select
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.exc import StatementError

from billhook.storage.database import Database
from billhook.storage.types import Moment, metadata

moments = Table("moments", MetaData(), Column("id", Integer, primary_key=True), Column("at", Moment))

TOKYO = timezone(timedelta(hours=9))
NOON_IN_TOKYO = datetime(2026, 2, 3, 12, 0, 0, 123456, tzinfo=TOKYO)


async def stored(db: Database, at: datetime | None) -> datetime | None:
    async with db.transaction() as tx:
        await tx.run_sync(moments.metadata.create_all)
        await tx.execute(insert(moments).values(id=1, at=at))
    async with db.reading() as tx:
        found: datetime | None = (await tx.execute(select(moments.c.at))).scalar_one()
    return found


async def test_a_moment_comes_back_as_the_same_instant_in_utc(db: Database) -> None:
    found = await stored(db, NOON_IN_TOKYO)
    assert found == NOON_IN_TOKYO
    assert found.tzinfo is UTC


async def test_no_moment_stays_no_moment(db: Database) -> None:
    assert await stored(db, None) is None


async def test_a_moment_without_a_zone_is_refused(db: Database) -> None:
    with pytest.raises(StatementError, match="a moment needs a time zone"):
        await stored(db, datetime(2026, 1, 1))


@pytest.mark.parametrize("kind", [SQLiteDialect_aiosqlite, PGDialect_asyncpg])
@given(at=st.datetimes(timezones=st.timezones(), min_value=datetime(1971, 1, 1), max_value=datetime(2900, 1, 1)))
def test_any_moment_survives_either_engine(kind: type[Dialect], at: datetime) -> None:
    dialect = kind()
    bound = Moment().process_bind_param(at, dialect)
    assert Moment().process_result_value(bound, dialect) == at.astimezone(UTC)


def test_constraints_have_names_that_a_migration_can_speak_of() -> None:
    assert set(metadata.naming_convention) >= {"ix", "uq", "ck", "fk", "pk"}
