"""The database, its clock and its disk."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from billhook.cli.doctor.finding import State
from billhook.cli.doctor.ground import judge_clock, judge_disk
from billhook.storage.migrate import head_revision
from tests.cli.conftest import Billhook
from tests.cli.doctor.conftest import Patient
from tests.support import on_postgres, on_sqlite

GIB = 1024**3


@pytest.mark.parametrize(
    ("ahead", "state", "words"),
    [
        (0.0, State.WELL, "agree"),
        (-1.9, State.WELL, "agree"),
        (2.0, State.NOTICE, "2 seconds ahead of"),
        (-29.9, State.NOTICE, "29 seconds behind"),
        (3600.0, State.PROBLEM, "1 hour ahead of"),
        (-86400.0 * 3, State.PROBLEM, "3 days behind"),
    ],
)
def test_clocks_may_be_a_little_apart(ahead: float, state: State, words: str) -> None:
    found = judge_clock(ahead)
    assert found.state is state
    assert words in found.message


@on_postgres
def test_a_database_whose_clock_is_an_hour_ahead_is_a_problem(patient: Patient) -> None:
    name = urlsplit(patient.location).path.removeprefix("/")
    patient.execute(
        "CREATE SCHEMA skewed",
        "CREATE FUNCTION skewed.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE"
        " AS 'SELECT pg_catalog.statement_timestamp() + interval ''61 minutes'''",
        f'ALTER DATABASE "{name}" SET search_path = skewed, pg_catalog, public',
    )
    found = patient.finding("clock")
    assert found["state"] == "problem"
    assert found["message"] == "the database's clock is 1 hour ahead of this machine's"
    assert "timedatectl" in found["fix"]


def test_the_revision_of_the_database_is_told(patient: Patient) -> None:
    assert patient.finding("schema")["message"] == f"{head_revision()}, as this program wants it"
    patient.execute("UPDATE alembic_version SET version_num = '9999'")
    found = patient.finding("schema")
    assert found["state"] == "well"
    assert found["message"] == f"9999, newer than this program ({head_revision()}) and made for it as well"


@pytest.mark.parametrize(
    ("free", "state"),
    [(50 * GIB, State.WELL), (2 * GIB, State.WELL), (GIB, State.NOTICE), (100 * 1024**2, State.PROBLEM)],
)
def test_a_disk_that_fills_up_is_told_before_it_is_full(free: int, state: State) -> None:
    assert judge_disk(free, "/data").state is state


@on_sqlite
def test_the_disk_is_that_of_the_file(patient: Patient, tmp_path: Path) -> None:
    assert str(tmp_path) in patient.finding("disk")["message"]


def test_the_file_that_was_examined_is_named(
    untouched: Billhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", f"sqlite:///{tmp_path}/elsewhere/other.db")
    assert "elsewhere" in untouched.json("doctor")[0]["message"]


def test_a_file_that_is_no_database_is_a_problem(billhook: Billhook, data_dir: Path) -> None:
    (data_dir / "billhook.db").write_bytes(b"not a database" * 1000)
    ran = billhook("doctor", "--json")
    assert ran.status == 1
    assert ran.document[0]["state"] == "problem"
    assert "BILLHOOK_DATA_DIR" in ran.document[0]["fix"]
