"""The master key, the signing keys and the secrets of clients."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from billhook.accounts.keyring import installation
from billhook.auth.keystore import signing_keys
from billhook.auth.store import client_secrets
from billhook.cli.doctor.finding import State
from billhook.cli.doctor.keys import judge_key
from billhook.settings import Settings
from billhook.storage.master_key import previous_file
from billhook.storage.vault import Vault
from tests.cli.conftest import Billhook
from tests.cli.doctor.conftest import Patient


def test_a_key_file_that_others_can_read_is_a_problem(patient: Patient, data_dir: Path) -> None:
    patient.examine()
    (data_dir / "master.key").chmod(0o644)
    found = patient.finding("master key")
    assert found["state"] == "problem"
    assert "mode 644" in found["message"]
    assert found["fix"] == f"Run `chmod 600 {data_dir / 'master.key'}`."


def test_a_key_from_the_environment_is_said_to_be(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", "k" * 40)
    assert "BILLHOOK_MASTER_KEY" in patient.finding("master key")["message"]


def test_a_rotation_that_did_not_come_to_its_end_is_a_problem(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", "k" * 40)
    patient.examine()
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", "n" * 40)
    monkeypatch.setenv("BILLHOOK_OTHER_MASTER_KEY", "k" * 40)
    assert "is to become the master key" in patient.finding("master key")["message"]
    patient.execute(update(installation).values(next_fingerprint=Vault("n" * 40).fingerprint))
    found = patient.finding("master key")
    assert found["state"] == "problem"
    assert "`billhook keys rotate-master` again" in found["fix"]
    patient.billhook.json("keys", "rotate-master")
    found = patient.finding("master key")
    assert found["state"] == "notice"
    assert "BILLHOOK_OTHER_MASTER_KEY" in found["fix"]


def test_an_old_key_file_that_was_left_is_noticed(patient: Patient, data_dir: Path) -> None:
    patient.examine()
    patient.billhook.json("keys", "rotate-master")
    found = patient.finding("master key")
    assert found["state"] == "notice"
    assert str(data_dir / "master.key.previous") in found["fix"]


def test_a_damaged_signing_key_is_a_problem(patient: Patient) -> None:
    patient.billhook("keys", "rotate")
    patient.execute(update(signing_keys).values(private_key=bytes(100)))
    found = patient.finding("signing keys")
    assert found["state"] == "problem"
    assert "keys rotate --emergency" in found["fix"]


@pytest.mark.parametrize(("age", "state"), [(30, "well"), (32, "notice")])
def test_a_signing_key_that_nobody_rotates_is_noticed(patient: Patient, age: int, state: str) -> None:
    patient.billhook("keys", "rotate", "--emergency")
    patient.execute("DELETE FROM signing_keys WHERE dropped_at IS NOT NULL")
    patient.execute(update(signing_keys).values(active_from=datetime.now(UTC) - timedelta(days=age, hours=1)))
    found = patient.finding("signing keys")
    assert found["state"] == state
    assert state == "well" or ("2 days ago" in found["message"] and "`billhook keys rotate`" in found["fix"])


def rotated(billhook: Billhook) -> str:
    made = billhook.json("client", "create", "--name", "Reports", "--scope", "notifications:send")
    billhook.json("client", "rotate", made["client_id"], "--grace", "1h")
    return str(made["client_id"])


def test_a_secret_in_use_that_ends_soon_is_noticed(patient: Patient) -> None:
    client_id = rotated(patient.billhook)
    assert patient.finding("client secrets")["state"] == "well"
    patient.execute(
        update(client_secrets).where(client_secrets.c.ends_at.is_not(None)).values(last_used_at=datetime.now(UTC))
    )
    found = patient.finding("client secrets")
    assert found["state"] == "notice"
    assert found["message"].startswith(f"1 secret that is in use ends within a day: {client_id} (Reports, in 59 min")
    assert f"`billhook client show {client_id}`" in found["fix"]


def test_a_secret_that_ended_is_no_matter(patient: Patient) -> None:
    rotated(patient.billhook)
    now = datetime.now(UTC)
    patient.execute(update(client_secrets).values(last_used_at=now, ends_at=now - timedelta(seconds=1)))
    assert patient.finding("client secrets")["state"] == "well"


@pytest.mark.parametrize(
    ("mode", "has_key", "has_other", "state"),
    [
        (0o600, True, False, State.WELL),
        (0o644, True, False, State.PROBLEM),
        (0o600, True, True, State.NOTICE),
        (0o644, True, True, State.PROBLEM),
        (0o600, False, True, State.NOTICE),  # whoever moved the files was stopped in the middle
    ],
)
def test_the_key_is_judged_by_its_file_and_what_is_beside_it(
    tmp_path: Path, mode: int, has_key: bool, has_other: bool, state: State
) -> None:
    settings = Settings(data_dir=tmp_path)
    for path, is_there in ((settings.master_key_file, has_key), (previous_file(settings), has_other)):
        if is_there:
            path.write_text("k" * 43)
            path.chmod(mode if path == settings.master_key_file else 0o600)
    assert judge_key(settings).state is state
