"""Locks by name: nobody waits, nobody shares, and the end of the transaction is the end of the lock."""

from billhook.storage.database import Database, open_database
from billhook.storage.locks import try_locks
from tests.support import on_postgres, on_sqlite


async def tried(db: Database, *names: str) -> set[str]:
    async with db.transaction() as tx:
        return await try_locks(tx, names)


async def test_what_nobody_holds_can_be_had(db: Database) -> None:
    assert await tried(db, "a", "b", "a") == {"a", "b"}


async def test_asking_for_nothing_gives_nothing(db: Database) -> None:
    assert await tried(db) == set()


async def test_names_may_be_any_text(db: Database) -> None:
    names = {"", "org_1", "'quoted' \"name\" \\", "\U0001f4a5", "x" * 10_000}
    assert await tried(db, *names) == names


@on_postgres
async def test_what_another_holds_is_not_waited_for(db: Database, location: str) -> None:
    elsewhere = open_database(location)
    try:
        async with db.transaction() as tx:
            assert await try_locks(tx, ["a", "b"]) == {"a", "b"}
            assert await tried(elsewhere, "b", "c") == {"c"}
            assert await tried(elsewhere, "a") == set()
    finally:
        await elsewhere.close()


async def test_the_end_of_the_transaction_frees_it(db: Database, location: str) -> None:
    elsewhere = open_database(location)
    try:
        for _ in range(2):
            assert await tried(db, "a") == {"a"}
            assert await tried(elsewhere, "a") == {"a"}
    finally:
        await elsewhere.close()


@on_postgres
async def test_a_rollback_frees_it_too(db: Database) -> None:
    try:
        async with db.transaction() as tx:
            await try_locks(tx, ["a"])
            raise RuntimeError("halfway")
    except RuntimeError:
        assert await tried(db, "a") == {"a"}


async def test_one_transaction_may_ask_twice(db: Database) -> None:
    async with db.transaction() as tx:
        assert await try_locks(tx, ["a"]) == {"a"}
        assert await try_locks(tx, ["a", "b"]) == {"a", "b"}


@on_sqlite
async def test_the_one_writer_of_sqlite_has_them_all(db: Database) -> None:
    async with db.transaction() as tx:
        assert await try_locks(tx, ["b", "a"]) == {"a", "b"}
