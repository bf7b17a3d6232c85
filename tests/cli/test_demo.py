"""billhook demo"""

import re
import signal
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.app import App
from billhook.cli.demo import SCHEDULE, demo_settings, streaming
from billhook.cli.demo_set_up import set_up
from billhook.delivery.control import delete_group
from billhook.delivery.reads import Filter, list_notifications
from billhook.settings import Settings, parse_schedule
from tests.cli.conftest import Billhook
from tests.scenarios.processes import PATIENCE, Running, billhook_in, until
from tests.support import FORM_TOKEN, OPERATOR
from tests.support import until as soon

OF_A_PERSON = {
    "BILLHOOK_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
    "BILLHOOK_PORT": "not a port",
    "BILLHOOK_BASE_URL": "https://billhook.example.com/prefix",
    "BILLHOOK_MASTER_KEY": "the key to what is real, and is not for a demo",
    "BILLHOOK_MAX_GROUPS": "1",
}
OF_NOW = "SELECT {} FROM deliveries WHERE created_ms > (SELECT 1000 * strftime('%s', created_at) FROM installation)"

INTERRUPTED = """
import io, os, signal, sys
from billhook.cli import main

class Terminal(io.StringIO):
    def write(self, text):
        os.kill(os.getpid(), signal.SIGTERM)
        return super().write(text)

sys.stdout = Terminal()
main()
"""


@dataclass(frozen=True)
class Demo:
    running: Running
    temporary: Path  # where it makes its folder
    data_dir: Path  # the person's own

    @property
    def folders(self) -> list[Path]:
        return list(self.temporary.iterdir())

    def is_ready(self) -> bool:
        assert self.running.process.poll() is None, self.running.stderr
        return "Ctrl-C ends it" in self.running.stdout

    def printed(self, word: str) -> str:
        """What stands beside a word."""
        found = re.search(rf"^ +{word} +(\S+)$", self.running.stdout, re.MULTILINE)
        assert found is not None, self.running.stdout
        return found[1]

    def ask(self, query: str) -> set[Any]:
        """The first column of what its database answers."""
        with closing(sqlite3.connect(Path(self.printed("Folder")) / "billhook.db")) as connection:
            return {row[0] for row in connection.execute(query)}


@contextmanager
def starting(folder: Path, **environment: str) -> Iterator[Demo]:
    temporary = folder / "temporary"
    temporary.mkdir()
    with billhook_in(folder, TMPDIR=str(temporary), **environment) as program:
        yield Demo(program.start("demo", "--port", "0"), temporary, program.data_dir)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """One for all that only look, started where a person has an installation of their own."""
    with starting(tmp_path_factory.mktemp("demo"), **OF_A_PERSON) as started:
        until(started.is_ready, what="it tells how to sign in")
        yield started


@pytest.fixture(scope="module")
def browser(demo: Demo) -> Iterator[httpx.Client]:
    """Signed in with what was printed."""
    with httpx.Client(
        base_url=demo.printed("Console"), timeout=PATIENCE, trust_env=False, follow_redirects=True
    ) as opened:
        token = FORM_TOKEN.search(opened.get("sign-in").text)
        assert token is not None
        who = {"email": demo.printed("Email"), "password": demo.printed("Password"), "next": ""}
        assert opened.post("sign-in", data={"form_token": token[1], **who}).status_code == 200
        yield opened


def test_who_signs_in_sees_groups_and_keys(browser: httpx.Client) -> None:
    groups, keys = browser.get("settings/notifications"), browser.get("settings/api-keys")
    assert "Budget alerts" in groups.text and "Cost anomalies" in groups.text
    assert "Cost pipeline" in keys.text


def test_deliveries_are_on_their_page(browser: httpx.Client) -> None:
    assert "dlv_" in browser.get("deliveries").text


def test_what_is_sent_now_meets_every_fate(demo: Demo) -> None:
    states = {"delivered", "pending", "failed", "held"}
    until(lambda: demo.ask(OF_NOW.format("state")) >= states, what="deliveries in all states")
    until(lambda: "connection_reset" in demo.ask(OF_NOW.format("error")), what="somebody hangs up")
    until(lambda: "disabled" in demo.ask("SELECT state FROM providers"), what="the one that is gone is disabled")


def test_the_stream_goes_on(demo: Demo) -> None:
    (before,) = demo.ask("SELECT count(*) FROM notifications")
    until(lambda: before not in demo.ask("SELECT count(*) FROM notifications"), what="more is sent")


def test_there_is_a_past_to_draw(demo: Demo) -> None:
    (hours,) = demo.ask("SELECT count(DISTINCT hour_ms) FROM attempt_counts")
    assert hours >= 7 * 24


def test_nothing_of_the_person_is_touched(demo: Demo) -> None:
    assert not demo.data_dir.exists()
    assert Path(demo.printed("Folder")) in demo.folders
    assert demo.printed("Console").startswith("http://127.0.0.1:")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_status_0_and_its_folder_is_gone(tmp_path: Path, number: signal.Signals) -> None:
    with starting(tmp_path) as started:
        until(started.is_ready, what="it tells how to sign in")
        started.running.signal(number)
        assert started.running.wait() == 0
        assert started.folders == []
        assert started.running.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_begins_ends_it_no_less_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with starting(tmp_path) as started:
        until(lambda: started.folders != [], what="it begins")
        started.running.signal(number)
        assert started.running.wait() == 0
        assert started.folders == []
        assert started.running.stderr == ""


def test_a_signal_while_it_tells_how_to_sign_in_ends_it_no_less_cleanly(tmp_path: Path) -> None:
    with billhook_in(tmp_path, TMPDIR=str(tmp_path)) as program:
        program.command = [sys.executable, "-c", INTERRUPTED]
        ran = program.run("demo", "--port", "0")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert list(tmp_path.glob("billhook-demo-*")) == []


def test_a_port_in_use_is_one_line_and_nothing_is_made(
    untouched: Billhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = untouched("demo", "--port", str(port))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == f"billhook: cannot listen on 127.0.0.1 port {port}: it is in use\n"
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_no_setting_of_the_person_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OF_A_PERSON.items():
        monkeypatch.setenv(name, value)
    settings = demo_settings(tmp_path)
    assert settings.database_location == f"sqlite:///{tmp_path}/billhook.db"
    assert settings.retry_schedule == parse_schedule(SCHEDULE)
    wanted = {"data_dir", "outbound_allow", "retry_schedule", "log_level"}
    for name in OF_A_PERSON:
        monkeypatch.delenv(name)
    left = settings.model_dump(exclude=wanted)
    assert left == Settings(data_dir=tmp_path).model_dump(exclude=wanted)


async def test_the_stream_outlives_a_group_that_the_person_deletes(installation: Installation, app: App) -> None:
    now = datetime.now(UTC)
    placement = await set_up(installation, password="a password of the tests", receiver="http://127.0.0.1:1", now=now)
    gone = placement.group_ids["Budget alerts"]
    async with installation.db.transaction() as tx:
        await delete_group(tx, gone, author=OPERATOR, now=now)

    async def others_are_served() -> bool:
        async with installation.db.reading() as tx:
            sent = await list_notifications(tx, Filter(placement.organization_id))
        return {row.group_id for row in sent} == {*placement.group_ids.values()} - {gone}

    async with streaming(app.hub, placement, begun=0):
        await soon(others_are_served)
