"""billhook doctor"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Billhook
from tests.support import on_postgres


def examine(billhook: Billhook) -> tuple[int, dict[str, Any]]:
    ran = billhook("doctor", "--json")
    return ran.status, {finding["check"]: finding for finding in ran.document}


def change(data_dir: Path, statement: str) -> None:
    with closing(sqlite3.connect(data_dir / "billhook.db")) as connection, connection:
        connection.execute(statement)


def test_a_healthy_installation_is_well(on_engine: Billhook) -> None:
    on_engine.json("keys", "rotate")
    status, findings = examine(on_engine)
    assert status == 0
    assert list(findings) == ["database", "schema", "master key and signing keys"]
    assert all(finding["ok"] for finding in findings.values())
    assert "2 signing keys" in findings["master key and signing keys"]["message"]


def test_an_installation_that_never_served_is_well(billhook: Billhook) -> None:
    status, findings = examine(billhook)
    assert status == 0
    assert "the first start makes one" in findings["master key and signing keys"]["message"]


def test_for_people_every_check_is_a_line(billhook: Billhook) -> None:
    ran = billhook("doctor")
    assert ran.status == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == ["CHECK", "database", "schema", "master"]


def test_the_first_problem_ends_the_examination(untouched: Billhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", "postgresql://ada:hunter2@127.0.0.1:1/x")
    status, findings = examine(untouched)
    assert status == 1
    assert list(findings) == ["database"]
    assert not findings["database"]["ok"]
    assert "hunter2" not in str(findings)


def test_a_folder_where_nothing_has_started_yet_is_no_problem(untouched: Billhook) -> None:
    status, findings = examine(untouched)
    assert status == 0
    assert findings["schema"]["message"] == "empty: whoever comes first makes it"


@on_postgres
def test_an_empty_postgres_is_a_problem_with_its_remedy(
    untouched: Billhook, empty_location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", empty_location)
    status, findings = examine(untouched)
    assert status == 1
    assert "run `billhook migrate`" in findings["schema"]["message"]


def test_a_newer_schema_is_a_problem(billhook: Billhook, data_dir: Path) -> None:
    change(data_dir, "UPDATE alembic_version SET version_num = '9999'")
    status, findings = examine(billhook)
    assert status == 1
    assert "newer than this program" in findings["schema"]["message"]


def test_a_missing_master_key_is_a_problem(billhook: Billhook, data_dir: Path) -> None:
    billhook("client", "list")
    (data_dir / "master.key").unlink()
    ran = billhook("doctor")
    assert ran.status == 1
    assert "PROBLEM" in ran.out
    assert "the master key is missing" in ran.out


def test_a_damaged_signing_key_is_a_problem(billhook: Billhook, data_dir: Path) -> None:
    billhook("keys", "rotate")
    change(data_dir, "UPDATE signing_keys SET private_key = zeroblob(100)")
    status, findings = examine(billhook)
    assert status == 1
    assert not findings["master key and signing keys"]["ok"]


def test_the_file_that_was_examined_is_named(
    untouched: Billhook, tmp_path: Path, migrated_sqlite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", f"sqlite:///{tmp_path}/elsewhere/other.db")
    _, findings = examine(untouched)
    assert "elsewhere" in findings["database"]["message"]
