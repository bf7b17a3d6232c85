"""An installation that may reach this machine and is quick to try again, and the application on it, delivering."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from billhook.accounts.installation import Installation
from billhook.app import App, running_app
from billhook.settings import Settings
from tests.delivery.desk import Desk
from tests.outbound.receivers import RawReceiver
from tests.support import BASE_URL


@pytest.fixture
def tuning() -> dict[str, Any]:
    """Settings that a test wants otherwise: `@tuned(in_flight_per_provider=1)`."""
    return {}


@pytest.fixture
def settings(location: str, tmp_path: Path, tuning: dict[str, Any]) -> Settings:
    ours = {"outbound_allow": "127.0.0.0/8", "retry_schedule": "0.05s,0.05s,0.05s"} | tuning
    return Settings(data_dir=tmp_path, database_url=SecretStr(location), base_url=BASE_URL, **ours)


@pytest.fixture
def with_worker() -> bool:
    """Whether anybody delivers; `@nobody_delivers` leaves everything queued."""
    return True


@pytest.fixture
async def app(installation: Installation, with_worker: bool) -> AsyncIterator[App]:
    async with running_app(installation, with_worker=with_worker) as running:
        yield running


@pytest.fixture
async def desk(http: httpx.AsyncClient, headers: dict[str, str]) -> Desk:
    return Desk(http, headers)


@pytest.fixture
async def receiver() -> AsyncIterator[RawReceiver]:
    """One that takes whatever comes."""
    async with RawReceiver() as listening:
        yield listening
