"""billhook serve, api and migrate, as far as no server is running yet."""

import gc
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from billhook.storage.migrate import head_revision
from tests.cli.conftest import Billhook
from tests.support import on_postgres


def test_migrating_says_what_it_did(untouched: Billhook, empty_location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", empty_location)
    assert untouched("migrate").out == f"The schema was at nothing, now at {head_revision()}.\n"
    assert untouched("migrate").out == f"The schema is at {head_revision()}.\n"
    assert untouched.json("migrate") == {"before": head_revision(), "after": head_revision()}


def become_newer(data_dir: Path) -> None:
    with closing(sqlite3.connect(data_dir / "billhook.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE schema_floor SET oldest_code = '9999'")


def test_a_newer_schema_is_not_migrated(billhook: Billhook, data_dir: Path) -> None:
    become_newer(data_dir)
    ran = billhook("migrate")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("billhook: the database schema (9999) is newer than this program")


@pytest.mark.parametrize("command", ["serve", "api"])
def test_a_newer_schema_is_not_served(billhook: Billhook, data_dir: Path, command: str) -> None:
    become_newer(data_dir)
    ran = billhook(command, "--port", "0")
    gc.collect()  # a socket that was left open would be noticed now
    assert (ran.status, ran.out) == (1, "")
    assert "billhook: the database schema (9999) is newer than this program" in ran.err


@on_postgres
@pytest.mark.parametrize("command", ["serve", "api"])
def test_an_empty_postgres_is_refused_with_the_remedy(
    untouched: Billhook, empty_location: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", empty_location)
    ran = untouched(command, "--port", "0")
    gc.collect()
    assert ran.status == 1
    assert "run `billhook migrate` first" in ran.err


@pytest.mark.parametrize("command", ["serve", "api"])
def test_a_port_in_use_is_one_line_and_nothing_is_made(untouched: Billhook, data_dir: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = untouched(command, "--port", str(port))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == f"billhook: cannot listen on 127.0.0.1 port {port}: it is in use\n"
    assert list(data_dir.iterdir()) == []


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_an_address_that_is_not_ours_is_one_line(untouched: Billhook, host: str) -> None:
    ran = untouched("serve", "--host", host, "--port", "0")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(f"billhook: cannot listen on {host} port 0: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_that_is_none_is_wrong_usage(untouched: Billhook, port: str) -> None:
    ran = untouched("serve", "--port", port)
    assert (ran.status, ran.out) == (2, "")
    assert "--port" in ran.err
