"""Fixtures of the scenarios: the program on an installation of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.processes import Billhook, Server, billhook_in


@pytest.fixture
def billhook(tmp_path: Path) -> Iterator[Billhook]:
    """On SQLite, as a newcomer has it."""
    with billhook_in(tmp_path) as program:
        yield program


@pytest.fixture(scope="module")
def shared_billhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Billhook]:
    """The same for all tests of a file, where they do not get into each other's way."""
    with billhook_in(tmp_path_factory.mktemp("shared")) as program:
        yield program


@pytest.fixture(scope="module")
def shared_server(shared_billhook: Billhook) -> Server:
    return shared_billhook.serve()
