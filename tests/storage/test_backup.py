"""A copy of a SQLite database that is being written meanwhile."""

import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from billhook.errors import BillhookError, Refusal
from billhook.storage.backup import back_up

BACK_UP = """
import sys
from pathlib import Path
from billhook.storage.backup import back_up
back_up(*map(Path, sys.argv[1:]))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE said (word TEXT)")
        db.execute("INSERT INTO said VALUES ('committed')")
    return path


def words(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("SELECT word FROM said")]


def test_a_copy_has_what_is_committed_and_waits_for_no_writer(source: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(source, isolation_level=None)) as writer:
        writer.execute("INSERT INTO said VALUES ('in the log only')")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO said VALUES ('not committed')")
        size = back_up(source, tmp_path / "copy.db")
        writer.execute("COMMIT")
    assert words(tmp_path / "copy.db") == ["committed", "in the log only"]
    assert size == (tmp_path / "copy.db").stat().st_size


def test_a_copy_is_for_its_owner_only(source: Path, tmp_path: Path) -> None:
    back_up(source, tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600


def test_what_is_there_is_never_overwritten(source: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(Refusal, match="is there already"):
        back_up(source, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_what_a_killed_one_left_behind_is_in_nobodys_way(source: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.db.part").write_text("half")
    back_up(source, tmp_path / "copy.db")
    assert words(tmp_path / "copy.db") == ["committed"]
    assert not (tmp_path / "copy.db.part").exists()


def test_one_that_is_killed_leaves_no_backup_behind(source: Path, tmp_path: Path) -> None:
    """Half of one would be taken for a whole one, and an empty file is a database that has nothing in it."""
    with closing(sqlite3.connect(source)) as db:
        db.executemany("INSERT INTO said VALUES (?)", [("much" * 10_000,)] * 2000)
        db.commit()
    with subprocess.Popen([sys.executable, "-c", BACK_UP, source, tmp_path / "copy.db"]) as process:
        while process.poll() is None and not (tmp_path / "copy.db.part").exists():
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "copy.db").exists()


def test_a_copy_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "ruin.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(BillhookError, match="cannot be copied"):
        back_up(tmp_path / "ruin.db", tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["ruin.db"]


@pytest.mark.parametrize(("source_name", "target"), [("nowhere.db", "copy.db"), ("source.db", "no/such/folder.db")])
def test_what_cannot_be_done_is_said_in_a_line(source: Path, tmp_path: Path, source_name: str, target: str) -> None:
    with pytest.raises(Refusal, match="nowhere.db|No such file or directory"):
        back_up(tmp_path / source_name, tmp_path / target)
    assert not (tmp_path / "nowhere.db").exists()
