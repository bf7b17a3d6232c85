"""A schema that is older or newer than the program: only `serve` on SQLite and `migrate` may upgrade it."""

import asyncio
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import billhook
from billhook.storage.migrate import head_revision
from tests.scenarios.processes import Billhook, assert_all_refused, billhook_in
from tests.support import Postgres

SOURCE = Path(billhook.__file__).parent
NEXT = f'''"""A table that this version does not know."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head_revision()}"


def upgrade() -> None:
    op.create_table("next", sa.Column("id", sa.Integer, primary_key=True))
'''

API = ("api", "--port", "0")
SERVE = ("serve", "--port", "0")
COMMAND = ("client", "list")
MIGRATE = ("migrate",)


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment that runs a copy of the program with one more migration: the version after this one."""
    folder = tmp_path_factory.mktemp("next")
    shutil.copytree(SOURCE, folder / "billhook", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "billhook" / "storage" / "migrations" / "versions" / "9999_next.py").write_text(NEXT)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture
def on_postgres(postgres: Postgres, tmp_path: Path) -> Iterator[Billhook]:
    location = asyncio.run(postgres.create_database())
    key = secrets.token_urlsafe(32)
    with billhook_in(tmp_path, BILLHOOK_DATABASE_URL=location, BILLHOOK_MASTER_KEY=key) as program:
        yield program


def test_on_sqlite_only_serve_upgrades_and_the_old_program_then_refuses(
    billhook: Billhook, next_version: dict[str, str]
) -> None:
    client = billhook.create_client()
    assert_all_refused(billhook, API, COMMAND, word="older than this program", **next_version)
    server = billhook.serve(**next_version)
    assert server.issues(client)
    assert server.stop() == 0
    assert_all_refused(billhook, SERVE, COMMAND, word="newer than this program")


def test_on_postgres_only_migrate_upgrades_and_the_old_program_then_refuses(
    on_postgres: Billhook, next_version: dict[str, str]
) -> None:
    on_postgres.json("migrate")
    assert_all_refused(on_postgres, SERVE, API, word="run `billhook migrate`", **next_version)
    assert on_postgres.json("migrate", **next_version) == {"before": head_revision(), "after": "9999"}
    assert_all_refused(on_postgres, API, MIGRATE, word="newer than this program")
