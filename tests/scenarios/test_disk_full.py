"""The disk of a SQLite installation fills up: who sends is told to come again, nothing that was accepted is lost, and
when there is room again it goes on, in the same process."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Billhook, Server, bearer, billhook_in, problem, until
from tests.scenarios.recorder import Recorder

MEGABYTES = 16
PER_PROVIDER = 10  # requests in flight
BODY = {"title": "Budget", "content": "exceeded " * 100}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    command = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "billhook-test", str(folder)]
    if (done := subprocess.run(command, capture_output=True, text=True, check=False)).returncode != 0:
        pytest.skip(f"cannot mount a small disk: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def program(disk: Path, tmp_path: Path, migrated_sqlite: Path) -> Iterator[Billhook]:
    shutil.copy(migrated_sqlite, disk / "billhook.db")
    environment = {
        "BILLHOOK_DATABASE_URL": f"sqlite:///{disk}/billhook.db",
        "BILLHOOK_MASTER_KEY": secrets.token_urlsafe(32),
        "BILLHOOK_OUTBOUND_ALLOW": "127.0.0.0/8",
    }
    with billhook_in(tmp_path, **environment) as opened:
        yield opened


class Sender:
    def __init__(self, server: Server, client: dict[str, str], group_id: str) -> None:
        self._server, self._path = server, f"/api/v1/groups/{group_id}/notifications"
        self.headers = bearer(server.token(client))
        self.accepted: list[str] = []

    def send(self) -> httpx.Response:
        answer = self._server.http.post(self._path, json=BODY, headers=self.headers)
        if answer.status_code == 202:
            self.accepted += [each["id"] for each in answer.json()["data"]["deliveries"]]
        return answer

    def is_refused(self) -> bool:
        return self.send().status_code != 202


def test_a_full_disk_is_weathered(program: Billhook, disk: Path) -> None:
    ledger = Ledger.of(program)
    with Recorder(holds=lambda number: number > 5) as recorder:
        client, group = ledger.credentials(), ledger.group(recorder.url())
        server = program.serve()
        sender = Sender(server, client, group)
        until(lambda: not sender.is_refused() and len(recorder.held) == PER_PROVIDER, what="all places are taken")
        fill(disk)
        until(sender.is_refused, what="what SQLite had set aside is used up")
        assert_tells_why(server, sender, client)
        recorder.release()
        until(lambda: "could not record outcomes" in server.stderr, what="what was taken cannot be written down")
        (disk / "ballast").unlink()
        until(lambda: not sender.is_refused(), what="it accepts again")
        until(lambda: is_done(ledger, sender, recorder), what="all are delivered")
        assert server.stop() == 0
    assert sorted(recorder.ids) == sorted(sender.accepted), "nothing was lost, and nothing sent again"
    assert [row[1] for row in ledger.attempts()] == [1] * len(sender.accepted)
    assert "Traceback" not in server.stderr


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space left"):
        while True:
            ballast.write(bytes(4096))


def assert_tells_why(server: Server, sender: Sender, client: dict[str, Any]) -> None:
    """Who wants something written is told when to come again; who wants to know something is answered."""
    refused = sender.send()
    assert (refused.status_code, problem(refused)) == (503, "internal/unavailable")
    assert "retry-after" in refused.headers
    assert server.accepts(server.token(client))
    listed = server.http.get("/api/v1/deliveries", headers=sender.headers)
    assert (listed.status_code, len(listed.json()["data"]) > 0) == (200, True)
    assert server.http.get("/readyz").status_code == 200, "it answers what can be answered"


def is_done(ledger: Ledger, sender: Sender, recorder: Recorder) -> bool:
    return len(set(recorder.ids)) == len(sender.accepted) and ledger.states() == {"delivered": len(sender.accepted)}
