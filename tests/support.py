"""What tests share besides fixtures."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
import structlog

from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation
from billhook.accounts.organizations import create_organization, find_organization
from billhook.auth import manage, model
from billhook.auth.manage import Author, ClientSpec
from billhook.auth.model import Client
from billhook.auth.secret import NewSecret

BASE_URL = "http://billhook.test"
OPERATOR = Author(Actor("cli:test"))
ALL_SCOPES = tuple(model.SCOPES)
FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')  # in every form of the console


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    server: Any

    async def create_database(self, *, template: str = "template1", name: str | None = None) -> str:
        name = name or f"test_{uuid4().hex}"
        await self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return str(self.server.get_uri(name))

    @contextmanager
    def database(self, *, template: str = "template1") -> Iterator[str]:
        """A database for one test."""
        name = f"test_{uuid4().hex}"
        yield asyncio.run(self.create_database(template=template, name=name))
        asyncio.run(self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.server.get_uri())
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@dataclass(frozen=True)
class Registered:
    """A client together with its secret, as only its owner has it."""

    client: Client
    secret: NewSecret

    @property
    def credentials(self) -> dict[str, str]:
        return {"client_id": self.client.id, "client_secret": self.secret.text}


async def register(
    installation: Installation,
    *,
    scopes: tuple[str, ...] = ALL_SCOPES,
    organization_id: str | None = None,
    **fields: Any,
) -> Registered:
    async with installation.db.transaction() as tx:
        owner = await find_organization(tx, organization_id)
        spec = ClientSpec(name=fields.pop("name", "robot"), scopes=scopes, **fields)
        made = await manage.create(
            tx, installation.vault, spec, organization_id=owner.id, author=OPERATOR, now=datetime.now(UTC)
        )
    return Registered(*made)


async def another_organization(installation: Installation) -> str:
    async with installation.db.transaction() as tx:
        return (await create_organization(tx, "Another", now=datetime.now(UTC))).id


async def token_for(http: httpx.AsyncClient, registered: Registered) -> str:
    answer = await http.post("/auth", json=registered.credentials)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["data"]["access_token"])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def until(condition: Callable[[], Awaitable[bool]], *, seconds: float = 60.0) -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)


# Engines differ in a few places; what holds for one of them only is still tested through the same fixtures.
on_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)


@contextmanager
def logging_restored() -> Iterator[None]:
    """What `log.configure` does to the whole process is undone afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()


# For tests of what is decided before anything is read or stored; all others run on both engines.
on_one_engine = pytest.mark.parametrize("engine", ["sqlite"])
