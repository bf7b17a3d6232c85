"""A redis-server of the benchmark's own: on a port and in a folder of its own, with the settings it comes with."""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.servers import Failed, Server, free_port, running

START_SECONDS = 20.0
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Redis:
    server: Server

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.server.port}/0"

    def ask(self, command: str) -> int:
        """One command whose answer is a number."""
        answer = self._talk(command)
        if not answer.startswith(b":"):
            raise Failed(f"redis-server answered {answer!r} to {command}")
        return int(answer[1:])

    def is_up(self) -> bool:
        try:
            return self._talk("PING").startswith(b"+PONG")
        except OSError:
            return False

    def _talk(self, command: str) -> bytes:
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE_SECONDS) as line:
            line.sendall(f"{command}\r\n".encode())
            with line.makefile("rb") as answer:
                return answer.readline().strip()


@contextmanager
def redis_server() -> Iterator[Redis]:
    program = shutil.which("redis-server")
    if program is None:
        raise Failed("no redis-server here; Debian: apt-get install redis-server")
    with tempfile.TemporaryDirectory(prefix="billhook-bench-redis-") as folder:
        port = free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        with running("redis-server", command, environment=dict(os.environ), log=Path(folder) / "redis.log") as started:
            redis = Redis(replace(started, port=port))
            _wait_until_up(redis)
            yield redis


def _wait_until_up(redis: Redis) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not redis.is_up():
        if not redis.server.is_alive or time.monotonic() > deadline:
            raise Failed("redis-server did not start")
        time.sleep(0.05)
