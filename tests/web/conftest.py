"""The log lines that a request leaves behind, as a collector of logs would read them."""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from billhook import log
from billhook.app import App
from billhook.settings import Settings
from billhook.web.express import Express
from tests.support import logging_restored, until

Line = dict[str, Any]


def add_route(app: App, path: str, handler: Callable[[Request], Awaitable[Response]]) -> None:
    """One more route in the real application."""
    express = app.asgi.app
    assert isinstance(express, Express)
    express.app.router.routes.append(Route(path, handler))


class LogLines:
    """Lines on standard error; what the client in the tests says about itself is left out."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self._seen: list[Line] = []

    async def of(self, request: Awaitable[httpx.Response]) -> list[Line]:
        """All lines up to and with the one that says how the request ended."""
        log.configure("info", "json")
        await request
        await until(self._has_ended)
        return self._seen

    async def _has_ended(self) -> bool:
        found = map(json.loads, self._capture.readouterr().err.splitlines())
        self._seen += [line for line in found if line["logger"] != "httpx"]
        return any(line["event"] == "request" for line in self._seen)


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """Manners do not depend on the engine; the few tests that are about the database say so."""
    return str(request.param)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nobody reads the log unless a test asks for it; drawing tracebacks for nobody takes a second each."""
    with logging_restored():
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        yield


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Logs are for machines here, also when the tests run on a terminal."""
    return settings.model_copy(update={"log_format": "json"})


@pytest.fixture
def log_lines(capfd: pytest.CaptureFixture[str]) -> LogLines:
    return LogLines(capfd)
