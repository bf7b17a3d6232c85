"""A served installation is backed up under load, with the commands of the page, and restored elsewhere with its key."""

import asyncio
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from billhook.settings import Settings
from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Billhook, Server, assert_refused, bearer, billhook_in, until
from tests.scenarios.recorder import Recorder, everybody
from tests.support import Postgres

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "back-up-and-restore.md"
BASE_URL = "https://billhook.example.com"  # it moves, and its name stays
PAUSE_SECONDS = 0.05  # between two sends: what is queued must be delivered again before the test ends
PROGRAM = Path(sys.executable).parent  # where `billhook` is


def commands(engine: str) -> tuple[str, str]:
    """How to back up, and how to restore, as the page has it."""
    section = PAGE.read_text().split(f"\n## {engine}\n")[1].split("\n## ")[0]
    back_up, restore = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return back_up, restore


@dataclass(frozen=True)
class Place:
    """An installation, and where the page's folders are for it."""

    program: Billhook
    kept: Path
    tools: Path  # of PostgreSQL, of the server's own version

    def run(self, script: str) -> None:
        for written, meant in (("/var/lib/billhook", self.program.data_dir), ("/var/backups/billhook", self.kept)):
            script = script.replace(written, str(meant))
        script = script.replace("/safe", str(self.kept))
        path = os.pathsep.join([str(self.tools), str(PROGRAM), os.environ["PATH"]])
        environment = self.program.environment | {"PATH": path, "BILLHOOK_DATA_DIR": str(self.program.data_dir)}
        done = subprocess.run(["sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def ledger(self) -> Ledger:
        if "BILLHOOK_DATABASE_URL" in self.program.environment:
            return Ledger.of(self.program)
        return Ledger(Settings(data_dir=self.program.data_dir))


@dataclass(frozen=True)
class Move:
    """From one place to another; both know only what is backed up, and where to connect."""

    old: Place
    new: Place
    back_up: str
    restore: str


@pytest.fixture
def move(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Move]:
    (kept := tmp_path / "kept").mkdir()
    shared = {"BILLHOOK_OUTBOUND_ALLOW": "127.0.0.0/8", "BILLHOOK_BASE_URL": BASE_URL}
    here, there, tools = shared, shared, PROGRAM
    if engine == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        tools = postgres.server.bin_path
        shared["BILLHOOK_MASTER_KEY"] = secrets.token_urlsafe(32)
        here, there = (shared | {"BILLHOOK_DATABASE_URL": asyncio.run(postgres.create_database())} for _ in range(2))
    back_up, restore = commands({"sqlite": "SQLite", "postgres": "PostgreSQL"}[engine])
    with billhook_in(tmp_path / "old", **here) as old, billhook_in(tmp_path / "new", **there) as new:
        yield Move(Place(old, kept, tools), Place(new, kept, tools), back_up, restore)


@contextmanager
def sending(server: Server, group: str, token: str) -> Iterator[list[str]]:
    """One notification after the other, until the end of the block. The ids of those that were accepted."""
    accepted: list[str] = []
    enough = Event()

    def send() -> None:
        while not enough.wait(PAUSE_SECONDS):
            body = {"title": f"Number {len(accepted)}", "content": "Under load"}
            answer = server.http.post(f"/api/v1/groups/{group}/notifications", json=body, headers=bearer(token))
            assert answer.status_code == 202, answer.text
            accepted.append(answer.json()["data"]["id"])

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(send)
        try:
            yield accepted
        finally:
            enough.set()
        running.result()


def serve(place: Place) -> Server:
    """On PostgreSQL this is after the migration; on SQLite it makes what is missing."""
    if "BILLHOOK_DATABASE_URL" in place.program.environment:
        assert place.program.run("migrate").returncode == 0
    return place.program.serve()


def test_a_backup_made_under_load_serves_elsewhere_with_its_key(move: Move) -> None:
    old, new = move.old, move.new
    with Recorder() as quick, Recorder(everybody) as slow:
        server = serve(old)
        kept, revoked = old.ledger.credentials(), old.ledger.credentials()
        groups = {name: old.ledger.group(recorder.url()) for name, recorder in (("quick", quick), ("slow", slow))}
        until(lambda: server.issues(kept) and server.issues(revoked), what="the clients are known")
        token = server.token(kept)
        with sending(server, groups["quick"], token) as to_quick, sending(server, groups["slow"], token) as to_slow:
            until(lambda: len(quick.ids) >= 20 and len(to_slow) >= 20, what="there is a load")
            delivered, before = old.ledger.delivered(), [*to_quick, *to_slow]
            old.run(move.back_up)
            after = len(to_quick)
            until(lambda: len(to_quick) > after, what="it goes on after the backup")
        late = to_quick[-1]
        old.program.json("client", "revoke", revoked["client_id"])
        slow.release()
        until(lambda: old.ledger.pending() == set(), what="the old installation has delivered everything")
        assert server.stop() == 0

        new.run(move.restore)
        pending = new.ledger.pending()
        assert pending and not pending & delivered
        assert {*quick.ids, *slow.ids} >= pending, "the old installation has delivered these since"
        assert_everything_is_there(new.ledger, before, but=late)
        new.ledger.let_leases_lapse()
        restored = serve(new)
        assert restored.accepts(token), "a token that was issued before the backup"
        assert restored.issues(kept) and restored.issues(revoked), "what was revoked since then counts again"
        until(lambda: new.ledger.pending() == set(), what="what was pending at the backup is delivered")
        assert restored.stop() == 0
    assert quick.repeated | slow.repeated == pending, "the same ids once more, and no others"


def assert_everything_is_there(ledger: Ledger, before: list[str], *, but: str) -> None:
    restored = {row[0] for row in ledger.query("SELECT id FROM notifications")}
    assert set(before) <= restored, "all that was accepted before the backup"
    assert but not in restored, "what was accepted after it is lost"


def test_without_its_master_key_a_backup_refuses_to_be_used(move: Move) -> None:
    serve(move.old).stop()
    move.old.run(move.back_up)
    move.new.run(move.restore)
    (move.new.program.data_dir / "master.key").unlink(missing_ok=True)
    without: dict[str, Any] = {"BILLHOOK_MASTER_KEY": ""}
    assert_refused(move.new.program.run("serve", "--port", "0", **without), "the master key is missing")
    wrong = {"BILLHOOK_MASTER_KEY": secrets.token_urlsafe(32)}
    assert_refused(move.new.program.run("serve", "--port", "0", **wrong), "the master key is not the one")
    assert not (move.new.program.data_dir / "master.key").exists(), "no other key was made in its place"
