"""One Database over two engines: SQLite for one machine, PostgreSQL for many.

The engines differ here and nowhere else.
"""

import asyncio
import math
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
from sqlalchemy import URL, event, text
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from billhook.errors import Refusal, Unavailable

Transaction = AsyncConnection

BUSY = timedelta(seconds=10)  # how long a SQLite writer waits for another process's commit
POOL_WAIT = timedelta(seconds=10)  # a request that waits longer for a connection is told 503
PING_SECONDS = 2.0
COMMAND_SECONDS = 10.0  # a PostgreSQL that takes longer for one statement is taken for away
READERS = 4  # SQLite reads never wait for the writer (WAL), so a few suffice
PASSING_STATES = {"08", "40", "53", "57", "58"}  # PostgreSQL: connection, deadlock, resources, operator, system
PASSING_NUMBERS = {5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 26}  # SQLite: busy, locked, out of memory … full … not a database
# A column that a statement reads was changed by a migration since it was prepared; SQLAlchemy then forgets them all.
PLANS_OUTDATED = AsyncAdapt_asyncpg_dbapi.InvalidCachedStatementError
# A process that stands still within a transaction would keep its locks, and all others from their work.
PATIENCE_WITH_US = {"idle_in_transaction_session_timeout": "10000"}  # milliseconds
# Without a word from the server's machine: milliseconds after what we sent, seconds until we ask and then ask again.
SILENCE = (("TCP_USER_TIMEOUT", 5000), ("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2))
RESTED_SECONDS = 1.0  # a connection that was not used for so long is asked first whether it is still there
OPENED_AS = "billhook_opened_as"  # a name for whoever opened a PostgreSQL database: others can tell them apart
POOL = 10  # PostgreSQL connections a process keeps; its default server limit is 100


@dataclass(frozen=True)
class Database:
    writer: AsyncEngine
    reader: AsyncEngine
    is_sqlite: bool

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that may write: committed at the end, rolled back on any error."""
        return _begin(self.writer)

    def reading(self) -> AbstractAsyncContextManager[Transaction]:
        """A consistent view to read from. On SQLite it does not wait for writers."""
        return _begin(self.reader)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Any]:
        """A PostgreSQL connection of one's own, as the driver has it; closed afterwards, never used by others."""
        connection = await _connect(self.writer)
        try:
            raw = await connection.get_raw_connection()
            driver = raw.driver_connection
            raw.detach()
            yield driver
        finally:
            await _give_back(connection)

    async def ping(self) -> None:
        """Unavailable when the database does not answer soon, also when it just says nothing."""
        asking = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait([asking], timeout=PING_SECONDS)
        if not done:
            asking.add_done_callback(
                lambda late: late.cancelled() or late.exception()
            )  # whatever it says, it says it too late
            raise Unavailable(detail=f"database: no answer within {PING_SECONDS} s")
        await asking

    async def _ask(self) -> None:
        async with self.reading() as tx:
            # SQLite answers a bare SELECT 1 without a look at its file
            await tx.execute(text("SELECT count(*) FROM sqlite_schema" if self.is_sqlite else "SELECT 1"))

    async def close(self) -> None:
        await self.writer.dispose()
        await self.reader.dispose()


def open_database(location: str, *, command_seconds: float = COMMAND_SECONDS) -> Database:
    """`sqlite:///file` or `postgresql://…`; no connection is made yet."""
    scheme = location.partition(":")[0].split("+")[0]
    if scheme == "sqlite":
        return _open_sqlite(location.partition("://")[2].removeprefix("/"))
    if scheme in ("postgresql", "postgres"):
        return _open_postgres("postgresql://" + location.partition("://")[2], command_seconds)
    raise Refusal("BILLHOOK_DATABASE_URL must begin with sqlite:/// or postgresql://")


def _open_sqlite(path: str) -> Database:
    if not path:
        raise Refusal("BILLHOOK_DATABASE_URL names no file: write sqlite:///path/to/billhook.db")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        Path(path).touch(mode=0o600)  # SQLite would make it readable for everybody
    except OSError as error:
        raise Refusal(f"cannot write the database {path}: {error.strerror}") from None
    writer = _sqlite_engine(path, connections=1, begin="BEGIN IMMEDIATE")
    return Database(writer, _sqlite_engine(path, connections=READERS, begin="BEGIN"), is_sqlite=True)


def _sqlite_engine(path: str, *, connections: int, begin: str) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=path),
        pool_size=connections,
        max_overflow=0,
        pool_timeout=POOL_WAIT.total_seconds(),
        hide_parameters=True,
    )

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(BUSY.total_seconds() * 1000)}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")  # a commit that was acknowledged survives a power cut
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin_transaction(connection: Any) -> None:
        # A writer takes the lock at once: a deferred one may fail half-way with "database is locked".
        connection.exec_driver_sql(begin)

    return engine


def _open_postgres(dsn: str, command_seconds: float) -> Database:
    async def connect(*_args: object, **_options: object) -> Any:
        # asyncpg reads the address itself, so sslmode, service files and socket folders work as in psql.
        try:
            connection = await asyncpg.connect(
                dsn, timeout=5, command_timeout=command_seconds, server_settings=PATIENCE_WITH_US
            )
            _notice_silence(connection._transport.get_extra_info("socket"))  # the driver has no setting for it
            return connection
        except (ValueError, asyncpg.ClientConfigurationError):
            raise Refusal("BILLHOOK_DATABASE_URL cannot be read as the address of a PostgreSQL database") from None

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        pool_size=POOL,
        max_overflow=0,
        pool_timeout=POOL_WAIT.total_seconds(),
        hide_parameters=True,
        execution_options={OPENED_AS: secrets.token_hex(8)},
    )
    _look_before_use(engine)
    reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return Database(engine, reader, is_sqlite=False)


def _notice_silence(connection: socket.socket) -> None:
    """A network that lost the server tells nobody: without this, the next packet is sent again and again for minutes.

    A server that is only busy is not taken for lost, since its machine still says that it has received.
    """
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in SILENCE:
            if hasattr(socket, name):  # Linux has them all
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _look_before_use(engine: AsyncEngine) -> None:
    """Notice a connection that was lost while it rested. A ping is three round trips: what was just used has none."""

    @event.listens_for(engine.sync_engine, "checkin")
    def rest(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info["rests_since"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def look(connection: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
        if connection.driver_connection.is_closed():
            raise InvalidatePoolError
        rests_since = record.info.get("rests_since", math.inf)  # a new one needs no look
        if time.monotonic() - rests_since < RESTED_SECONDS:
            return
        try:
            connection.ping()
        except (engine.dialect.loaded_dbapi.Error, OSError, TimeoutError) as error:
            raise InvalidatePoolError from error


@asynccontextmanager
async def _begin(engine: AsyncEngine) -> AsyncIterator[Transaction]:
    connection = await _connect(engine)
    try:
        with _weather():
            async with connection.begin():
                yield connection
    finally:
        await _give_back(connection)


async def _give_back(connection: AsyncConnection) -> None:
    """Also when cancelled meanwhile: whoever waits for the cancelled one may then close the pool.

    How long this takes is bounded by the driver's own timeouts. A second cancellation ends the patience.
    """
    closing = asyncio.create_task(connection.close())
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await asyncio.wait([closing])
        raise


async def _connect(engine: AsyncEngine) -> AsyncConnection:
    """Whatever keeps us from connecting is weather: also a wrong password, which somebody is about to set right."""
    try:
        return await engine.connect()
    except (SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise _unavailable(error) from error


@contextmanager
def _weather() -> Iterator[None]:
    """A database that is away, locked, ruined or full is weather, not a bug: callers see Unavailable.

    Inside a transaction no other network is called, so a lost connection or a timeout there is the database's.
    """
    try:
        yield
    except (InterfaceError, ConnectionError, TimeoutError) as error:
        raise _unavailable(error) from error
    except DBAPIError as error:
        if not _is_weather(error):
            raise
        raise _unavailable(error) from error


def _is_weather(error: DBAPIError) -> bool:
    if error.connection_invalidated or isinstance(error.orig, PLANS_OUTDATED):
        return True
    state = getattr(error.orig, "sqlstate", None) or ""
    number = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    return state[:2] in PASSING_STATES or number in PASSING_NUMBERS


def _unavailable(error: Exception) -> Unavailable:
    """With the driver's own words, and without the statement and its values."""
    reason = error.orig if isinstance(error, DBAPIError) else error
    return Unavailable(detail=f"database: {type(reason).__name__}: {reason}")
