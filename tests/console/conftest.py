"""Browsers in which somebody has signed in."""

from collections.abc import AsyncIterator

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.accounts.users import Role
from billhook.app import App
from tests.console.support import add_user, signed_in
from tests.outbound.receivers import RawReceiver


@pytest.fixture
async def browser(app: App, installation: Installation) -> AsyncIterator[httpx.AsyncClient]:
    """An admin's."""
    person = await add_user(installation, email="admin@example.com")
    async with signed_in(app, installation, person) as opened:
        yield opened


@pytest.fixture
async def viewer(app: App, installation: Installation) -> AsyncIterator[httpx.AsyncClient]:
    """Of somebody who may look and change nothing."""
    person = await add_user(installation, email="viewer@example.com", role=Role.VIEWER)
    async with signed_in(app, installation, person) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[RawReceiver]:
    """One that takes whatever comes."""
    async with RawReceiver() as listening:
        yield listening
