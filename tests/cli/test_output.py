"""What all commands have in common: one document, one line of regret, and a status."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from billhook import __version__
from billhook.cli.output import fail, show, table
from billhook.errors import InvalidParameters, Unavailable
from tests.cli.conftest import Billhook

READING = [["client", "list"], ["organization", "list"], ["audit"], ["keys", "list"], ["doctor"], ["migrate"]]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_with_json_there_is_one_document_and_nothing_else(billhook: Billhook, command: list[str]) -> None:
    ran = billhook(*command, "--json")
    assert ran.status == 0
    assert isinstance(ran.document, list | dict)
    assert ran.err == ""


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_without_json_there_is_text_for_people(billhook: Billhook, command: list[str]) -> None:
    ran = billhook(*command)
    assert ran.status == 0
    assert ran.out.strip()
    assert ran.err == ""


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_wrong_setting_is_one_line_that_names_it(
    billhook: Billhook, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLHOOK_PORT", "no-number")
    ran = billhook(*command)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("billhook: BILLHOOK_PORT: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", [["client", "list"], ["keys", "rotate"], ["audit"]], ids=" ".join)
def test_a_wrong_master_key_is_one_line(
    billhook: Billhook, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    billhook("client", "list")
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", "another master key, and a long one")
    ran = billhook(*command)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("billhook: the master key is not the one this database was made with")


def test_a_database_that_is_away_is_one_line(untouched: Billhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", "postgresql://ada:hunter2@127.0.0.1:1/x")
    ran = untouched("client", "list")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("billhook: ")
    assert ran.err.count("\n") == 1
    assert "hunter2" not in ran.err


def test_an_empty_folder_is_made_ready_by_any_command(untouched: Billhook, data_dir: Path) -> None:
    assert [item["name"] for item in untouched.json("organization", "list")] == ["Default"]
    assert {"billhook.db", "master.key"} <= {path.name for path in data_dir.iterdir()}


def test_the_version_is_told(untouched: Billhook) -> None:
    assert untouched("version").out == f"{__version__}\n"


def test_the_version_is_told_in_json(untouched: Billhook) -> None:
    assert __version__ in str(untouched.json("version"))


def test_help_names_every_command(untouched: Billhook) -> None:
    ran = untouched("--help")
    assert ran.status == 0
    assert all(
        name in ran.out for name in ("serve", "api", "migrate", "client", "user", "organization", "keys", "doctor")
    )


@pytest.mark.parametrize("arguments", [["nothing"], ["--nothing"], ["client", "nothing"], ["serve", "--port", "x"]])
def test_wrong_usage_ends_with_2(untouched: Billhook, arguments: list[str], data_dir: Path) -> None:
    ran = untouched(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err
    assert list(data_dir.iterdir()) == []


def test_a_table_cuts_nothing_off() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    text = table(["ID", "AT", "NAME"], [("x" * 300, moment, None), ("y", "", "Ada")])
    title, first, second = text.splitlines()
    assert first == "x" * 300 + "  2026-01-02 03:04:05+00:00  -"
    assert second.split() == ["y", "-", "Ada"]
    assert title.index("AT") == first.index("2026") == second.index("-")


SPELLED = [
    ("\x1b[2J\x07", r"\x1b[2J\x07"),
    ("a\rb\x00\x7f\x9b31m", r"a\rb\x00\x7f\x9b31m"),
    ("\u202egnp.exe\u2066", r"\u202egnp.exe\u2066"),
    ("\ud800", r"\ud800"),
    ("Zoë ☃ 👩\u200d🚀\n\tx", "Zoë ☃ 👩\u200d🚀\n\tx"),
]


@pytest.mark.parametrize(("written", "shown"), SPELLED)
def test_what_a_terminal_would_obey_is_spelled_out(
    written: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(None, text=written, as_json=False)
    assert capsys.readouterr().out == f"{shown}\n"


def test_a_document_keeps_what_people_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    show({"name": "Zoë ☃"}, text="", as_json=True)
    assert "Zoë ☃" in capsys.readouterr().out


def test_a_failure_tells_the_operator_the_detail_that_callers_do_not_get(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["billhook", "client", "list"])
    with pytest.raises(SystemExit) as end:
        fail(Unavailable(detail="database: gone"))
    assert end.value.code == 1
    assert capsys.readouterr().err.endswith("(database: gone)\n")


def test_a_failure_in_json_is_a_document_as_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["billhook", "client", "list", "--json"])
    with pytest.raises(SystemExit):
        fail(InvalidParameters.of("name", "is required"))
    captured = capsys.readouterr()
    assert '"code": "bad-request/invalid-parameters"' in captured.out
    assert captured.err == "billhook: name: is required\n"
