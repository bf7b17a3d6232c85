"""/healthz is about the process, /readyz about the database behind it."""

from functools import partial
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.app import App
from billhook.errors import BillhookError
from tests.support import Postgres, Registered, on_postgres, register, until

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"


async def lose_database(postgres: Postgres, location: str) -> None:
    name = urlsplit(location).path.removeprefix("/")
    connection = await asyncpg.connect(postgres.server.get_uri())
    try:
        await connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        await connection.execute(CUT, name)
    finally:
        await connection.close()


async def find_database(postgres: Postgres, location: str) -> None:
    name = urlsplit(location).path.removeprefix("/")
    connection = await asyncpg.connect(postgres.server.get_uri())
    try:
        await connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    finally:
        await connection.close()


async def is_known(http: httpx.AsyncClient, client: Registered) -> bool:
    return (await http.post("/auth", json=client.credentials)).status_code == 201


async def measured(http: httpx.AsyncClient, name: str) -> str:
    lines = (await http.get("/metrics")).text.splitlines()
    return next(line.split()[-1] for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize(("path", "status"), [("/healthz", "alive"), ("/readyz", "ready")])
async def test_a_healthy_service_says_so(http: httpx.AsyncClient, path: str, status: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 200
    assert answer.json() == {"code": "success", "data": {"status": status}}
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_may_ask_with_head(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.head(path)).status_code == 200


async def test_how_old_our_knowledge_is_can_be_measured(http: httpx.AsyncClient) -> None:
    assert 0 <= float(await measured(http, "billhook_registry_age_seconds")) < 60


@on_postgres
async def test_without_its_database_the_service_is_alive_but_not_ready(
    http: httpx.AsyncClient, location: str, postgres: Postgres
) -> None:
    await lose_database(postgres, location)
    answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"code": "internal/unavailable", "message": "the database does not answer"}
    assert (await http.get("/healthz")).status_code == 200


@on_postgres
async def test_when_its_database_is_back_the_service_learns_of_changes_again(
    app: App, http: httpx.AsyncClient, installation: Installation, location: str, postgres: Postgres
) -> None:
    await lose_database(postgres, location)
    with pytest.raises(BillhookError):
        await app.auth.registry.refresh()
    await find_database(postgres, location)
    made = await register(installation)
    await until(partial(is_known, http, made), seconds=3)
