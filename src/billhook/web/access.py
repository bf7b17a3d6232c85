"""The access log: a line for each request, written together with its neighbours.

One line through the general machinery of `log` costs more than signing a token, and one write a line half as much. So
requests are noted as they are, and a twentieth of a second's worth of them is spelled out and written at once.
"""

import asyncio
import sys
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from billhook.log import is_json, redact, to_json

FLUSH_SECONDS = 0.05
FLUSH_LINES = 1000  # or as soon as so many are waiting


class Line(NamedTuple):
    moment: float  # Unix seconds
    request_id: str
    method: str
    path: str
    status: int
    seconds: float
    peer: str


class AccessLog:
    def __init__(self, level: str, format: str) -> None:
        self.is_on = level in ("debug", "info")
        self._write = _write_json if is_json(format) else _write_for_people
        self._waiting: list[Line] = []

    def note(self, line: Line) -> None:
        if not self.is_on:
            return
        self._waiting.append(line)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        elif len(self._waiting) >= FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Also called at a clean stop, so that the last requests are not missing."""
        lines, self._waiting = self._waiting, []
        if lines:
            self._write(lines)


def _write_json(lines: list[Line]) -> None:
    sys.stderr.write("\n".join(map(_spell, lines)) + "\n")
    sys.stderr.flush()


def _spell(line: Line) -> str:
    fields = {"event": "request", "logger": "billhook.access", "level": "info"}
    return to_json(fields | _fields(line) | {"timestamp": datetime.fromtimestamp(line.moment, UTC).isoformat()})


def _write_for_people(lines: list[Line]) -> None:
    for line in lines:
        structlog.get_logger("billhook.access").info("request", **_fields(line))


def _fields(line: Line) -> dict[str, object]:
    return {
        "request_id": line.request_id,
        "method": line.method,
        "path": redact(line.path),
        "status": line.status,
        "milliseconds": round(line.seconds * 1000, 2),
        "peer": line.peer,
    }
