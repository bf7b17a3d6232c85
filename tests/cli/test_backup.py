"""billhook backup"""

from pathlib import Path

import pytest

from tests.cli.conftest import Billhook
from tests.support import on_postgres


def test_a_backup_is_the_same_installation(
    billhook: Billhook, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    billhook("group", "create", "alerts")
    made = billhook.json("backup", str(tmp_path / "copy.db"))
    assert made == {"file": str(tmp_path / "copy.db"), "bytes": (tmp_path / "copy.db").stat().st_size}
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", f"sqlite:///{tmp_path}/copy.db")
    assert [group["name"] for group in billhook.json("group", "list")] == ["alerts"]


def test_people_are_told_to_keep_the_key_as_well(billhook: Billhook, tmp_path: Path) -> None:
    assert "Keep the master key" in billhook("backup", str(tmp_path / "copy.db")).out


def test_where_nothing_is_installed_there_is_nothing_to_copy(untouched: Billhook, tmp_path: Path) -> None:
    ran = untouched("backup", str(tmp_path / "copy.db"))
    assert (ran.status, ran.out) == (1, "")
    assert "there is no database" in ran.err


@on_postgres
def test_on_postgresql_the_right_tool_is_named(on_engine: Billhook, tmp_path: Path) -> None:
    ran = on_engine("backup", str(tmp_path / "copy.db"))
    assert (ran.status, ran.out) == (1, "")
    assert "pg_dump" in ran.err
