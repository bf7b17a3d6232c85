"""The access log: a line for each request, written together with its neighbours.

One line through the general machinery of `log` costs more than signing a token, and one write a line half as much. So
requests are noted as they are, and a twentieth of a second's worth of them is spelled out and written at once.
"""

import asyncio
import sys
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

import structlog

from billhook.log import is_json, redact, to_json

FLUSH_SECONDS = 0.05
FLUSH_LINES = 1000  # or as soon as so many are waiting
LONGEST_KEPT = 200  # characters of a path; who asks for long ones must not fill our memory with them


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
        with suppress(OSError):  # a full disk under the log is no reason to refuse requests
            if lines:
                self._write(lines)


def _write_json(lines: list[Line]) -> None:
    sys.stderr.write("\n".join(map(_spell, lines)) + "\n")
    sys.stderr.flush()


def _spell(line: Line) -> str:
    """The line as JSON. Only the method and the path are a caller's own words; the rest needs no escaping."""
    moment, request_id, method, path, status, seconds, peer = line
    second = int(moment)
    spell_request = _spell_request if len(path) <= LONGEST_KEPT else _spell_request.__wrapped__
    return (
        '{"event":"request","logger":"billhook.access","level":"info",'
        f'"timestamp":"{_spell_second(second)}.{int((moment - second) * 1e6):06}Z",'
        f'"request_id":"{request_id}",{spell_request(method, path)},'
        f'"status":{status},"milliseconds":{seconds * 1000:.2f},"peer":"{peer}"}}'
    )


@lru_cache(maxsize=4)
def _spell_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=1024)  # nearly all requests are for a few paths
def _spell_request(method: str, path: str) -> str:
    return f'"method":{to_json(redact(method))},"path":{to_json(redact(path))}'


def _write_for_people(lines: list[Line]) -> None:
    log = structlog.get_logger("billhook.access")
    for line in lines:
        fields = line._asdict() | {"milliseconds": round(line.seconds * 1000, 2)}
        log.info("request", **{name: value for name, value in fields.items() if name not in ("moment", "seconds")})
