"""Logs: one line an event, a request id in each, and no secrets in any."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from billhook import log
from billhook.auth.secret import new_secret
from billhook.log import HIDDEN, REQUEST_ID, redact
from tests.support import logging_restored

SECRET = new_secret().text
JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJjbGlfMSJ9.c2lnbmF0dXJl-_x"

Written = Callable[[Callable[[], object]], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    with logging_restored():
        yield


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Written:
    """The lines that an action leaves behind."""

    def lines(action: Callable[[], object]) -> list[dict[str, Any]]:
        log.configure("debug", "json")
        action()
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    return lines


def ours(event: str, **fields: object) -> None:
    structlog.get_logger("billhook.ours").info(event, **fields)


def theirs(event: str, *arguments: object) -> None:
    logging.getLogger("theirs").warning(event, *arguments)


# --- redaction ---


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (SECRET, SECRET),
        (f'{{"client_secret": "{SECRET}"}}', SECRET),
        (f"client_secret={SECRET}&x=1", SECRET),
        (JWT, "eyJzdWIiOiJjbGlfMSJ9"),
        (f"token {JWT} is bad", "c2lnbmF0dXJl"),
        ("Authorization: Bearer opaque-token", "opaque-token"),
        ("authorization: bearer opaque-token", "opaque-token"),
        ("Authorization: Basic Y2xpOnNlY3JldA==", "Y2xpOnNlY3JldA"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYq"),
        ("postgresql://ada:hunter2@host/x", "hunter2"),
        ("could not reach https://ada:hunter2@host/x?y", "hunter2"),
    ],
    ids=lambda value: "",  # else the secret of this run would be in the name
)
def test_what_looks_like_a_secret_is_hidden_in_any_text(text: str, hidden: str) -> None:
    assert hidden not in redact(text)
    assert HIDDEN in redact(text)


def test_a_password_with_an_at_sign_is_hidden_whole() -> None:
    assert "ter2" not in redact("postgresql://ada:hun@ter2@host/x")


@given(before=st.text(), after=st.text(st.characters(exclude_categories=["L", "N"], exclude_characters="_")))
def test_a_client_secret_is_hidden_wherever_it_stands(before: str, after: str) -> None:
    assert SECRET not in redact(before + SECRET + after)


@pytest.mark.parametrize(
    "name",
    [
        "client_secret",
        "password",
        "Authorization",
        "access_token",
        "refresh_token",
        "set-cookie",
        "api_key",
        "master_key",
    ],
)
def test_a_field_with_the_name_of_a_secret_is_hidden_at_any_depth(name: str) -> None:
    nested = {"outer": [{"inner": ({name: "hunter2"},)}]}
    assert redact(nested) == {"outer": [{"inner": [{name: HIDDEN}]}]}


@pytest.mark.parametrize("value", [1, 1.5, True, None, "plain", {"a": [1, "b"]}, "https://host/a@b", "2026-01-01"])
def test_what_is_no_secret_stays(value: object) -> None:
    assert redact(value) == value


def test_anything_else_is_shown_as_text_and_redacted() -> None:
    assert redact(ValueError(f"bad: {SECRET}")) == f"bad: {HIDDEN}"
    assert redact(f"raw {JWT}".encode()) == f"b'raw {HIDDEN}'"


# --- lines ---


def test_our_lines_and_those_of_libraries_have_one_dress(written: Written) -> None:
    (first,) = written(lambda: ours("said", answer=42))
    (second,) = written(lambda: theirs("said %s", "too"))
    assert (first["event"], first["answer"], first["level"], first["logger"]) == ("said", 42, "info", "billhook.ours")
    assert (second["event"], second["level"], second["logger"]) == ("said too", "warning", "theirs")
    assert first.keys() - {"answer"} == second.keys()


def test_every_line_has_a_moment_in_utc(written: Written) -> None:
    assert written(lambda: ours("said"))[0]["timestamp"].endswith("Z")


def test_every_line_carries_the_request_id(written: Written) -> None:
    token = REQUEST_ID.set("request-1")
    try:
        lines = written(lambda: ours("said")) + written(lambda: theirs("said"))
    finally:
        REQUEST_ID.reset(token)
    assert [line["request_id"] for line in lines] == ["request-1", "request-1"]


def test_outside_of_a_request_there_is_a_dash(written: Written) -> None:
    assert written(lambda: ours("said"))[0]["request_id"] == "-"


def test_no_line_shows_a_secret_whoever_writes_it(written: Written) -> None:
    def speak() -> None:
        ours(f"event {SECRET}", field=SECRET, token="hunter2", nested={"password": "hunter2"})
        theirs("argument %s of %r", SECRET, {"jwt": JWT})

    shown = str(written(speak))
    assert not any(secret in shown for secret in (SECRET, "hunter2", JWT))


def test_an_exception_is_shown_with_its_traceback_and_without_secrets(written: Written) -> None:
    def fail() -> None:
        try:
            raise RuntimeError(f"bad secret {SECRET}")
        except RuntimeError:
            structlog.get_logger("x").exception("failed")
            logging.getLogger("y").exception("failed")

    shown = [line["exception"] for line in written(fail)]
    assert len(shown) == 2
    assert all("RuntimeError: bad secret [hidden]" in text for text in shown)


def test_a_secret_in_the_cause_of_an_exception_is_hidden_too(written: Written) -> None:
    def fail() -> None:
        try:
            raise RuntimeError("outer") from ValueError(f"Bearer {JWT}")
        except RuntimeError:
            structlog.get_logger("x").exception("failed")

    assert JWT not in str(written(fail))


@pytest.mark.parametrize("value", ["lone \ud800", 2**70, {1: "number as a name"}], ids=["surrogate", "huge", "keys"])
def test_a_line_is_written_whatever_it_holds(written: Written, value: object) -> None:
    assert [line["event"] for line in written(lambda: ours("said", value=value))] == ["said"]


def test_a_line_for_people_hides_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "console")
    ours("said", field=SECRET, password="hunter2")
    shown = capsys.readouterr().err
    assert "said" in shown
    assert not any(secret in shown for secret in (SECRET, "hunter2"))


def test_logs_go_to_standard_error_only_and_as_json_when_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "auto")
    ours("said")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["event"] == "said"


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("error", "json")
    ours("said")
    theirs("said")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["uvicorn.error", "alembic", "aiosqlite", "asyncio"])
def test_chatty_libraries_speak_only_when_something_is_wrong(written: Written, name: str) -> None:
    assert written(lambda: logging.getLogger(name).info("chat")) == []
    assert len(written(lambda: logging.getLogger(name).warning("trouble"))) == 1
