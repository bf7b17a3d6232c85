"""The access log: every request once, together with its neighbours."""

import asyncio
import json

import pytest

from billhook.web import access
from billhook.web.access import AccessLog, Line

LINE = Line(1_800_000_000.5, "0123456789abcdef", "POST", "/auth", 201, 0.0123, "192.0.2.1")


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


async def test_a_line_says_what_was_asked_and_answered(capsys: pytest.CaptureFixture[str]) -> None:
    log = AccessLog("info", "json")
    log.note(LINE)
    log.flush()
    assert written(capsys) == [
        {
            "event": "request",
            "logger": "billhook.access",
            "level": "info",
            "timestamp": "2027-01-15T08:00:00.500000Z",
            "request_id": "0123456789abcdef",
            "method": "POST",
            "path": "/auth",
            "status": 201,
            "milliseconds": 12.3,
            "peer": "192.0.2.1",
        }
    ]


async def test_lines_are_written_by_themselves_after_a_moment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "FLUSH_SECONDS", 0)
    log = AccessLog("info", "json")
    for _ in range(3):
        log.note(LINE)
    assert written(capsys) == []
    await asyncio.sleep(0)  # one turn of the loop
    await asyncio.sleep(0)
    assert len(written(capsys)) == 3


async def test_a_burst_does_not_wait_for_the_moment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "FLUSH_LINES", 3)
    log = AccessLog("info", "json")
    for _ in range(3):
        log.note(LINE)
    assert len(written(capsys)) == 3


async def test_a_secret_in_a_path_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    log = AccessLog("debug", "json")
    log.note(LINE._replace(path="/auth/bhs_0123456789_secret"))
    log.flush()
    assert [line["path"] for line in written(capsys)] == ["/auth/[hidden]"]


async def test_long_paths_are_logged_whole_and_not_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    log, path = AccessLog("info", "json"), "/" + "x" * access.LONGEST_KEPT
    before = access._spell_request.cache_info().currsize
    log.note(LINE._replace(path=path))
    log.flush()
    assert [line["path"] for line in written(capsys)] == [path]
    assert access._spell_request.cache_info().currsize == before


@pytest.mark.parametrize("level", ["warning", "error"])
async def test_at_higher_levels_there_is_no_access_log(capsys: pytest.CaptureFixture[str], level: str) -> None:
    log = AccessLog(level, "json")
    log.note(LINE)
    log.flush()
    assert written(capsys) == []
