"""A module of ours as a process of its own, talked to in lines of JSON; every wait for an answer has an end."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil  # type: ignore[import-untyped]

from bench.affinity import pinned_to
from bench.servers import Failed

ANSWER_SECONDS = 20.0  # on a busy machine a process needs a few until it has imported everything
CHUNK = 1 << 20


class Child:
    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._name = name
        self._process = process
        self._heard = b""

    def ask(self, what: object, *, seconds: float = ANSWER_SECONDS) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()
        return self.hear(seconds=seconds)

    def hear(self, *, seconds: float = ANSWER_SECONDS) -> Any:
        """The next line it says."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._heard:
            if not self._has_said_more(deadline - time.monotonic()):
                raise Failed(f"{self._name} did not answer within {seconds:.0f} s")
            self._heard += self._read()
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def _has_said_more(self, seconds: float) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], max(seconds, 0.0))[0])

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        data = os.read(self._process.stdout.fileno(), CHUNK)
        if not data:
            raise Failed(f"{self._name} ended early; its message is above")
        return data

    def cpu_seconds(self) -> float:
        return float(sum(psutil.Process(self._process.pid).cpu_times()[:2]))


@contextmanager
def child(module: str, *, core: int | None = None) -> Iterator[Child]:
    with pinned_to(core):
        process = subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Child(module, process)
    finally:
        process.kill()
        process.communicate()


def say(what: object) -> None:
    """In the child: one line to the parent."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
