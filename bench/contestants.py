"""Senders of webhooks under test, each with a batch to send: ours, Apprise, and Celery with Redis."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.backlog import MESSAGE, count_pending, make_doors, queue_up
from bench.draining import ORGANIZATIONS, PROVIDERS
from bench.engines import Engine, Site
from bench.peers.environment import HERE, peers_python
from bench.receiver import Receiver
from bench.redis import Redis, redis_server
from bench.servers import Failed, Server, billhook_worker, running

QUEUE_SECONDS = 600.0


class Batch(Protocol):
    """What is to be sent, and a sender that can be started on it again and again."""

    def started(self) -> AbstractContextManager[Server]: ...

    def store_cpu_seconds(self) -> float:
        """Of the database or broker it needs, where that is a process of its own."""
        ...

    def store_bytes(self) -> int: ...

    def is_worked_off(self) -> bool:
        """Nothing waits any more that this sender would still take up by itself within a minute or two."""
        ...

    def held_back(self) -> int:
        """Not lost, but out of reach for long."""
        ...


class Contestant(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def remembers(self) -> bool:
        """Whether anything of the batch outlives the sender."""
        ...

    def batch(self, to: Receiver, count: int) -> AbstractContextManager[Batch]: ...


# Ours


@dataclass(frozen=True)
class Billhook:
    engine: Engine
    remembers = True

    @property
    def name(self) -> str:
        return f"billhook, {'SQLite' if self.engine.postgres is None else 'PostgreSQL'}"

    @contextmanager
    def batch(self, to: Receiver, count: int) -> Iterator[Batch]:
        with self.engine.site() as site:
            queue_up(site, make_doors(site, to.url(), PROVIDERS, organizations=ORGANIZATIONS), count)
            site.settle()
            yield BillhookBatch(site)


@dataclass(frozen=True)
class BillhookBatch:
    site: Site

    def started(self) -> AbstractContextManager[Server]:
        return billhook_worker(self.site.data_dir, settings=self.site.environment)

    def store_cpu_seconds(self) -> float:
        return self.site.engine.cpu_seconds()

    def store_bytes(self) -> int:
        return self.site.engine.memory_bytes()

    def is_worked_off(self) -> bool:
        return count_pending(self.site) == 0

    def held_back(self) -> int:
        return 0


# Apprise


@dataclass(frozen=True)
class Apprise:
    how: str  # notify or async_notify
    remembers = False

    @property
    def name(self) -> str:
        return f"Apprise, {self.how}"

    @contextmanager
    def batch(self, to: Receiver, count: int) -> Iterator[Batch]:
        python = peers_python("apprise")
        with tempfile.TemporaryDirectory(prefix="billhook-bench-") as folder:
            yield AppriseBatch(python, Path(folder), to.url(), self.how, count)


@dataclass
class AppriseBatch:
    python: Path
    folder: Path
    url: str
    how: str
    left: int  # for the next start: the list is in the memory of the first, and goes with it

    @contextmanager
    def started(self) -> Iterator[Server]:
        environment = peers_environment(self.url, self.left) | {"HOW": self.how}
        self.left = 0
        command = [str(self.python), str(HERE / "apprise_app.py")]
        with running("Apprise", command, environment=environment, log=self.folder / "sender.log") as server:
            yield server

    def store_cpu_seconds(self) -> float:
        return 0.0

    def store_bytes(self) -> int:
        return 0

    def is_worked_off(self) -> bool:
        return True

    def held_back(self) -> int:
        return 0


# Celery


@dataclass(frozen=True)
class Celery:
    acks_late: bool = False
    remembers = True

    @property
    def name(self) -> str:
        return f"Celery and Redis, {'acks_late' if self.acks_late else 'its defaults'}"

    @contextmanager
    def batch(self, to: Receiver, count: int) -> Iterator[Batch]:
        python = peers_python("celery[redis]", "requests")
        with redis_server() as redis, tempfile.TemporaryDirectory(prefix="billhook-bench-") as folder:
            acks = {"ACKS_LATE": "yes" if self.acks_late else "no"}
            batch = CeleryBatch(python, Path(folder), redis, peers_environment(to.url(), count) | acks)
            batch.queue_up()
            yield batch


@dataclass(frozen=True)
class CeleryBatch:
    python: Path
    folder: Path
    redis: Redis
    given: dict[str, str] = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        return self.given | {"BROKER": self.redis.url, "PYTHONPATH": str(HERE)}

    def queue_up(self) -> None:
        command = [str(self.python), str(HERE / "celery_app.py")]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=QUEUE_SECONDS)
        if done.returncode != 0:
            raise Failed(f"the batch could not be queued:\n{done.stderr[-2000:]}")

    def started(self) -> AbstractContextManager[Server]:
        """With as many children as there are cores: its default."""
        command = [str(self.python), "-m", "celery", "-A", "celery_app", "worker", "--loglevel", "INFO"]
        return running("Celery", command, environment=self.environment, log=self.folder / "sender.log")

    def store_cpu_seconds(self) -> float:
        return self.redis.server.cpu_seconds()

    def store_bytes(self) -> int:
        return self.redis.server.memory_bytes()

    def is_worked_off(self) -> bool:
        return self.redis.ask("LLEN celery") == 0

    def held_back(self) -> int:
        """Taken by a worker that is no more: Redis gives them to another after an hour (its visibility_timeout)."""
        return self.redis.ask("HLEN unacked")


def peers_environment(url: str, count: int) -> dict[str, str]:
    """The same title and content as ours. No proxy of this machine's: everything here is on it."""
    theirs = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "BILLHOOK_")) and not name.lower().endswith("_proxy")
    }
    message = {"TITLE": MESSAGE.title, "CONTENT": MESSAGE.content}
    return theirs | message | {"URL": url, "COUNT": str(count)}
