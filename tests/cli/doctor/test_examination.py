"""What stands on nothing is always looked at, and the rest as far as the ground holds."""

from pathlib import Path

import pytest

from tests.cli.conftest import Billhook
from tests.cli.doctor.conftest import Patient
from tests.support import on_postgres, on_sqlite

ALL = ["database", "disk", "clock", "schema", "master key", "signing keys", "DNS", "receivers"]
ALL += ["client secrets", "groups", "providers", "queue", "held work", "recoveries"]
SETTINGS = ["base URL", "proxies", "allowed networks"]


def test_a_healthy_installation_is_well(patient: Patient, engine: str) -> None:
    patient.billhook.json("keys", "rotate")
    status, findings = patient.examine()
    assert status == 0
    assert list(findings) == [name for name in [*ALL, *SETTINGS] if name != "disk" or engine == "sqlite"]
    assert all(finding["state"] == "well" and finding["ok"] for finding in findings.values())
    assert findings["signing keys"]["message"].startswith("2 keys; ")


@on_sqlite
def test_without_a_master_key_all_that_needs_none_is_still_looked_at(patient: Patient, data_dir: Path) -> None:
    patient.group()
    (data_dir / "master.key").unlink()
    status, findings = patient.examine()
    assert status == 1
    assert "the master key is missing" in findings["master key"]["message"]
    assert str(data_dir / "master.key") in findings["master key"]["fix"]
    assert findings["groups"]["state"] == "notice"
    assert set(ALL + SETTINGS) - set(findings) == {"signing keys", "DNS", "receivers"}


def test_with_another_master_key_too(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.group()
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", "another" * 6)
    found = patient.finding("master key")
    assert found["state"] == "problem"
    assert "not the one this database was made with" in found["message"]
    assert "BILLHOOK_MASTER_KEY" in found["fix"]


def test_without_a_database_the_settings_are_still_looked_at(
    untouched: Billhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", "postgresql://ada:hunter2@127.0.0.1:1/x")
    ran = untouched("doctor", "--json")
    assert ran.status == 1
    assert [finding["check"] for finding in ran.document] == ["database", *SETTINGS]
    assert "psql" in ran.document[0]["fix"]
    assert "hunter2" not in ran.out


def test_an_address_that_is_none_is_a_problem_of_the_database(
    untouched: Billhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", "mysql://somewhere/x")
    ran = untouched("doctor", "--json")
    assert ran.status == 1
    assert "must begin with" in ran.document[0]["message"]


@on_postgres
def test_an_empty_postgres_is_a_problem_with_its_remedy(
    untouched: Billhook, empty_location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", empty_location)
    ran = untouched("doctor", "--json")
    findings = {finding["check"]: finding for finding in ran.document}
    assert ran.status == 1
    assert "`billhook migrate`" in findings["schema"]["fix"]
    assert "clock" in findings
    assert "queue" not in findings


def test_a_newer_schema_is_a_problem(patient: Patient) -> None:
    patient.execute("UPDATE alembic_version SET version_num = '9999'", "UPDATE schema_floor SET oldest_code = '9999'")
    found = patient.finding("schema")
    assert found["state"] == "problem"
    assert "install" in found["fix"]


def test_a_folder_where_nothing_has_started_yet_is_no_problem(untouched: Billhook) -> None:
    ran = untouched("doctor", "--json")
    assert ran.status == 0
    findings = {finding["check"]: finding for finding in ran.document}
    assert findings["schema"]["message"] == "empty: whoever comes first makes it"
    assert "the first start makes one" in findings["signing keys"]["message"]


def test_for_people_every_check_is_a_line_and_every_fix_is_below_it(patient: Patient) -> None:
    group = patient.group()
    ran = patient.billhook("doctor")
    assert ran.status == 0
    lines = ran.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("groups"))
    assert "notice   1 group reaches nobody" in lines[at]
    assert lines[at + 1].strip().startswith(f"→ Give it a provider: `billhook provider add {group}")
    assert lines[-1].startswith("No problem, 1 notice, ")


def test_for_people_a_problem_is_loud(untouched: Billhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", "postgresql://127.0.0.1:1/x")
    ran = untouched("doctor")
    assert ran.out.splitlines()[0].startswith("database          PROBLEM  no answer (")
    assert "1 problem, 3 well. Not looked at: clock, schema, " in ran.out


def test_for_people_health_is_one_sentence(patient: Patient) -> None:
    assert patient.billhook("doctor").out.splitlines()[-1].endswith("checks are well.")
