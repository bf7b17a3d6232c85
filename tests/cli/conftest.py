"""Commands run in this process, on an installation of their own."""

import io
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from billhook.cli import main
from billhook.settings import PREFIX, Settings
from tests.support import logging_restored


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output; fails when there is anything beside it."""
        return json.loads(self.out)


class Terminal(io.StringIO):
    """Standard input of a person."""

    def isatty(self) -> bool:
        return True


class Billhook:
    """`billhook …` as typed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, stdin: str = "", at_terminal: bool = False) -> Ran:
        self._monkeypatch.setattr(sys, "argv", ["billhook", *arguments])
        self._monkeypatch.setattr(sys, "stdin", Terminal(stdin) if at_terminal else io.StringIO(stdin))
        self._capsys.readouterr()
        status = self._run()
        captured = self._capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """The document that the command prints with --json, when it succeeds."""
        ran = self(*arguments, "--json", stdin=stdin)
        assert ran.status == 0, ran
        return ran.document

    def _run(self) -> int:
        try:
            main()
        except SystemExit as end:
            assert end.code is None or isinstance(end.code, int)
            return end.code or 0
        return 0


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the installation, empty; no other setting is set."""
    for name in Settings.model_fields:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)
    monkeypatch.setenv("BILLHOOK_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def untouched(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Billhook]:
    """The program where it has never run before."""
    with logging_restored():
        yield Billhook(capsys, monkeypatch)


@pytest.fixture
def billhook(untouched: Billhook, data_dir: Path, migrated_sqlite: Path) -> Billhook:
    """The program on SQLite, with the schema already made."""
    shutil.copy(migrated_sqlite, data_dir / "billhook.db")
    return untouched


@pytest.fixture
def on_engine(untouched: Billhook, location: str, monkeypatch: pytest.MonkeyPatch) -> Billhook:
    """The program on each engine in turn."""
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", location)
    return untouched
