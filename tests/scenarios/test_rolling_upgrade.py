"""An upgrade without a pause: old and new processes work together over one PostgreSQL while it is migrated, and those
that the schema has outgrown stop and say so."""

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import gt
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest

import billhook
from billhook.storage.migrate import head_revision
from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Billhook, Server, assert_refused, bearer, installed, until
from tests.scenarios.recorder import Recorder
from tests.support import on_postgres

SOURCE = Path(billhook.__file__).parent
OLD = head_revision()
API = ("api", "--port", "0")
PAUSE = 0.05  # seconds between two calls: this is about what is answered, not about how much

# What an old program does not know and need not know: a table, a column, and more room in columns that it reads.
NEXT = f'''"""Made up: the next release, which goes together with this one."""

import sqlalchemy as sa
from alembic import op

revision = "9998"
down_revision = "{OLD}"
oldest_code = "{OLD}"


def upgrade() -> None:
    op.create_table("next", sa.Column("id", sa.Integer, primary_key=True))
    op.add_column("deliveries", sa.Column("colour", sa.Text, nullable=False, server_default="grey"))
    for table, column in [("deliveries", "attempts"), ("deliveries", "charged"), ("providers", "version")]:
        op.alter_column(table, column, type_=sa.BigInteger)
'''

BREAKING = '''"""Made up: the release after that, which nothing older can live with."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "9998"


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("weight", sa.Integer, nullable=False, server_default="1"))
'''


def release(folder: Path, *migrations: tuple[str, str]) -> dict[str, str]:
    """The environment that runs a copy of the program with more migrations."""
    shutil.copytree(SOURCE, folder / "billhook")
    for name, text in migrations:
        (folder / "billhook" / "storage" / "migrations" / "versions" / f"{name}.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def program(location: str, tmp_path: Path) -> Iterator[Billhook]:
    with installed(tmp_path, location, BILLHOOK_BASE_URL="https://billhook.example.com") as opened:
        yield opened


@dataclass(frozen=True)
class Callers:
    """One for each server: a token, a send with it, and the next. What is refused with 503 is sent again."""

    credentials: dict[str, str]
    group: str
    accepted: list[str] = field(default_factory=list)  # their deliveries

    @contextmanager
    def calling(self, *servers: Server) -> Iterator[None]:
        enough = Event()
        with ThreadPoolExecutor(len(servers)) as pool:
            callers = [pool.submit(self._call_on, server, enough) for server in servers]
            try:
                yield
            finally:
                enough.set()
            for caller in callers:
                caller.result()

    def _call_on(self, server: Server, enough: Event) -> None:
        while not enough.wait(PAUSE):
            headers = bearer(server.token(self.credentials)) | {"Idempotency-Key": uuid4().hex}
            until(lambda: self.send(server, headers), what="it is accepted")  # noqa: B023

    def send(self, server: Server, headers: dict[str, str]) -> bool:
        path = f"/api/v1/groups/{self.group}/notifications"
        answer = server.http.post(path, json={"title": "Budget", "content": "exceeded"}, headers=headers)
        if answer.status_code == 503:
            return False
        assert answer.status_code == 202, answer.text
        (delivery,) = answer.json()["data"]["deliveries"]
        self.accepted.append(delivery["id"])
        return True


def start(program: Billhook, *commands: str, **environment: str) -> list[Server]:
    """Several at once, since each takes seconds."""
    starting = [program.start(command, "--port", "0", **environment) for command in commands]
    return [program.ready(each) for each in starting]


def assert_stops_by_itself(server: Server, revision: str) -> None:
    """As at SIGTERM, but for its last line and its status."""
    assert server.wait() == 1
    *log, last = server.stderr.splitlines()
    assert last == (
        f"billhook: the database schema was migrated and needs 9999 or later, this program is {revision}:"
        " install the newer Billhook"
    )
    assert any('"level":"error"' in line and "needs 9999 or later" in line for line in log), "it is logged as well"
    assert any('"stopped"' in line for line in log), "everything was ended in order"
    assert "Traceback" not in server.stderr


@on_postgres
def test_old_and_new_work_together_until_the_schema_outgrows_the_old(
    program: Billhook, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, ledger = tmp_path_factory.mktemp("releases"), Ledger.of(program)
    following = release(folder / "next", ("9998_next", NEXT))
    breaking = release(folder / "breaking", ("9998_next", NEXT), ("9999_breaking", BREAKING))
    with Recorder() as recorder:
        callers = Callers(ledger.credentials(), ledger.group(recorder.url()))
        old = start(program, "api", "serve", "worker")
        with callers.calling(*old[:2]):
            until(lambda: all(map(has_delivered, old[1:])), what="both old workers deliver")
            assert program.json("migrate", **following) == {"before": OLD, "after": "9998"}
            late = program.start(*API)  # old code, on the newer schema
            new = start(program, "api", "worker", **following)
            with callers.calling(new[0]):
                until(lambda: has_delivered(new[1]), what="the new one delivers as well")
                delivered = [attempts(each) for each in old[1:]]
                until(lambda: all(map(gt, map(attempts, old[1:]), delivered)), what="and the old ones go on")
        old.append(program.ready(late))
        assert_one_system(old[0], new[0], callers)
        until(lambda: not ledger.pending(), what="all are delivered")

        assert program.json("migrate", **breaking) == {"before": "9998", "after": "9999"}
        for server, revision in [*((each, OLD) for each in old), *((each, "9998") for each in new)]:
            assert_stops_by_itself(server, revision)
        assert_refused(program.run(*API), "(9999) is newer than this program")
    assert sorted(recorder.ids) == sorted(callers.accepted)


def attempts(server: Server) -> float:
    """Of its own, that went well."""
    page = server.http.get("/metrics").text
    found = re.search(r'^billhook_attempts_total\{outcome="2xx"\} (.+)$', page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def has_delivered(server: Server) -> bool:
    return attempts(server) > 0


def assert_one_system(one: Server, other: Server, callers: Callers) -> None:
    assert other.accepts(one.token(callers.credentials))
    assert one.accepts(other.token(callers.credentials))
