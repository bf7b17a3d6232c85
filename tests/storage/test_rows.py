"""Many rows in one statement: what goes in comes out, on both engines alike."""

from typing import Any

import pytest
from sqlalchemy import BigInteger, Integer, Text, column, delete, event, insert, select, table, text, update

from billhook.storage.database import Database
from billhook.storage.rows import pack, rows

things = table("things", column("id", Text), column("note", Text), column("size", BigInteger))


@pytest.fixture
async def filled(db: Database) -> Database:
    async with db.transaction() as tx:
        await tx.execute(text("CREATE TABLE things (id TEXT PRIMARY KEY, note TEXT, size BIGINT)"))
        await tx.execute(text("INSERT INTO things VALUES ('a', 'one', 1), ('b', 'two', 2), ('c', 'three', 3)"))
    return db


async def through(db: Database, values: list[dict[str, Any]], **columns: Any) -> list[tuple[Any, ...]]:
    async with db.reading() as tx:
        given = rows(tx.dialect.name, "given", **columns)
        found = await tx.execute(select(*given.c), {"given": pack(values)})
        return [tuple(row) for row in found]


TEXTS = [
    "",
    "plain",
    " spaces ",
    "\"'`\\{}[]$.:%?",
    "line\r\nbreak\ttab\x01\x1f\x7f",
    "\U0001f4a5\u2028\ufeff\uffff\U0010ffff",
    "1",
    "0012",
    "1e5",
    "true",
    "null",
    '{"json": [1]}',
    "\\u0000",
    "x" * 100_000,
]


async def test_texts_come_out_as_they_went_in(db: Database) -> None:
    found = await through(db, [{"name": each} for each in TEXTS], name=Text())
    assert [row[0] for row in found] == TEXTS


NUMBERS = [0, 1, -1, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]


async def test_numbers_come_out_exactly(db: Database) -> None:
    found = await through(db, [{"number": each} for each in NUMBERS], number=BigInteger())
    assert [row[0] for row in found] == NUMBERS


async def test_nothing_comes_out_as_nothing(db: Database) -> None:
    given: list[dict[str, Any]] = [{"name": None, "number": None}, {}, {"name": "", "number": 0}]
    found = await through(db, given, name=Text(), number=Integer())
    assert found == [(None, None), (None, None), ("", 0)]


async def test_only_the_named_columns_are_read(db: Database) -> None:
    found = await through(db, [{"b": 2, "a": "x", "other": [1]}], a=Text(), b=Integer())
    assert found == [("x", 2)]


@pytest.mark.parametrize("count", [0, 1, 5000])
async def test_any_number_of_rows_is_one_parameter(db: Database, count: int) -> None:
    found = await through(db, [{"number": each} for each in range(count)], number=Integer())
    assert [row[0] for row in found] == list(range(count))


async def test_many_rows_are_inserted_by_one_statement(filled: Database) -> None:
    made = [{"id": f"n{number}", "note": None, "size": number} for number in range(1000)]
    async with filled.transaction() as tx:
        given = rows(tx.dialect.name, "given", id=Text(), note=Text(), size=BigInteger())
        await tx.execute(insert(things).from_select(["id", "note", "size"], select(*given.c)), {"given": pack(made)})
        found = await tx.execute(select(things).where(things.c.note.is_(None)).order_by(things.c.size))
        assert [row._asdict() for row in found] == made


async def test_an_update_says_which_rows_were_met(filled: Database) -> None:
    changes = [{"id": "a", "size": 10}, {"id": "c", "size": 30}, {"id": "nobody", "size": 0}]
    async with filled.transaction() as tx:
        given = rows(tx.dialect.name, "given", id=Text(), size=BigInteger())
        changed = update(things).where(things.c.id == given.c.id).values(size=given.c.size).returning(things.c.id)
        met = {row.id for row in await tx.execute(changed, {"given": pack(changes)})}
        sizes = (await tx.execute(select(things.c.size).order_by(things.c.id))).scalars().all()
    assert (met, sizes) == ({"a", "c"}, [10, 2, 30])


async def test_rows_can_say_what_to_delete(filled: Database) -> None:
    async with filled.transaction() as tx:
        given = rows(tx.dialect.name, "given", id=Text())
        gone = delete(things).where(things.c.id.in_(select(given.c.id)))
        await tx.execute(gone, {"given": pack([{"id": "a"}, {"id": "b"}])})
        assert (await tx.execute(select(things.c.id))).scalars().all() == ["c"]


async def test_two_tables_of_rows_fit_into_one_statement(db: Database) -> None:
    async with db.reading() as tx:
        left = rows(tx.dialect.name, "first", id=Text(), a=Integer())
        right = rows(tx.dialect.name, "second", id=Text(), b=Integer())
        query = select(left.c.id, left.c.a, right.c.b).join_from(left, right, left.c.id == right.c.id)
        values = {"first": pack([{"id": "x", "a": 1}, {"id": "y", "a": 2}]), "second": pack([{"id": "y", "b": 3}])}
        assert [tuple(row) for row in await tx.execute(query, values)] == [("y", 2, 3)]


async def test_the_statement_is_the_same_for_one_row_and_for_a_thousand(db: Database) -> None:
    seen: set[str] = set()

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "given" in statement or "json" in statement:
            seen.add(statement)

    event.listen(db.reader.sync_engine, "before_cursor_execute", note)
    for count in (1, 1000):
        await through(db, [{"number": 1}] * count, number=Integer())
    assert len(seen) == 1
