"""Where the microseconds of a token, an accepted notification and a delivery go, on PostgreSQL, by sampling."""

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import command, load
from bench.backlog import make_client, make_doors, queue_up, send_requests
from bench.credentials import auth_request
from bench.draining import ORGANIZATIONS, PROVIDERS, SLOWEST, START_SECONDS
from bench.engines import Engine, Site, engine
from bench.receiver import POLL_SECONDS, Receiver, receiver
from bench.servers import Failed, Server, billhook, billhook_worker

ROOT = Path(__file__).resolve().parent.parent
WRITE_SECONDS = 30.0
WARM_UP_SECONDS = 2.0
WARM_UP_DELIVERIES = 2_000
CONNECTIONS = 64
LARGEST = 12  # rows of a table; the rest is added up

# What a function is part of, by the longest beginning of its name. The innermost function that is here counts, so that
# the time of helpers (json, re, enum …) goes to whoever called them.
PARTS: Mapping[str, str] = {
    "asyncpg": "asyncpg: protocol and encoding",
    "sqlalchemy": "SQLAlchemy: statements, results, pool",
    "sqlalchemy.pool": "SQLAlchemy: connections in and out of the pool",
    "sqlalchemy.util._concurrency_py3k": "SQLAlchemy: switching between its two worlds",
    "sqlalchemy.util.concurrency": "SQLAlchemy: switching between its two worlds",
    "aiohttp": "aiohttp: connection, parser, streams",
    "asyncio": "asyncio: tasks, timeouts, locks",
    "uvicorn": "uvicorn: HTTP protocol",
    "starlette": "Starlette",
    "fastapi": "FastAPI",
    "structlog": "log lines",
    "billhook.log": "log lines",
    "prometheus_client": "metrics",
    "billhook.auth": "auth: other",
    "billhook.auth.issuer": "auth: claims and signature",
    "billhook.auth.tokens": "auth: tokens, signed or checked",
    "billhook.auth.keys": "auth: claims and signature",
    "joserfc": "auth: claims and signature",
    "cryptography": "auth: claims and signature",
    "billhook.auth.endpoint": "auth: the endpoint",
    "billhook.auth.registry": "auth: registry and credentials",
    "billhook.auth.credentials": "auth: registry and credentials",
    "billhook.auth.throttle": "limits",
    "billhook.web.throttle": "limits",
    "billhook.web": "web: requests, answers, errors",
    "billhook.web.middleware": "web: middleware, request log",
    "billhook.web.lanes": "auth: the signature itself",
    "billhook.delivery.accept": "accept: rows of notifications and deliveries",
    "billhook.delivery.api": "accept: the endpoint",
    "billhook.delivery.queue": "claim",
    "billhook.delivery.fairness": "claim",
    "billhook.delivery.outcomes": "record outcomes",
    "billhook.delivery.counts": "record outcomes",
    "billhook.delivery.attempt": "build, mask and decide",
    "billhook.delivery.retry": "build, mask and decide",
    "billhook.delivery.worker": "worker: flights",
    "billhook.delivery": "delivery: other",
    "billhook.providers": "build and sign the request",
    "billhook.outbound": "outbound: guard, wire, trace",
    "billhook.storage": "storage: transactions, group commit",
    "billhook.groups": "groups: directory of providers",
}


@dataclass(frozen=True)
class Profile:
    """Of one operation."""

    name: str
    microseconds: float
    samples: int
    parts: Counter[str]

    def table(self) -> str:
        rows = self.parts.most_common(LARGEST)
        rest = self.samples - sum(count for _, count in rows)
        lines = [f"| {self.name} | CPU, us | share |", "|---|---:|---:|"]
        lines += [self._line(part, count) for part, count in [*rows, ("everything else", rest)] if count]
        lines.append(f"| **all** ({self.samples:,} samples) | **{self.microseconds:.0f}** | |")
        return "\n".join(lines)

    def _line(self, part: str, count: int) -> str:
        share = count / self.samples
        return f"| {part} | {share * self.microseconds:.0f} | {share:.0%} |"


def part_of(stack: Sequence[str]) -> str:
    """`stack` from the innermost function outwards."""
    for name in stack:
        if found := max((prefix for prefix in PARTS if name.startswith(f"{prefix}.")), key=len, default=""):
            return PARTS[found]
    return "the loop, and what has no frame of Python"


class Sampler:
    """Switches the sampler of a server on and off, and measures the CPU time between."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file, self.name = folder / "samples.json", name

    @property
    def module(self) -> tuple[str, ...]:
        return "bench.sampled", str(self.file)

    @contextmanager
    def on(self, server: Server) -> Iterator[Callable[[int], Profile]]:
        """The block does the operations; what it yields makes the profile once their number is known."""
        server.signal(signal.SIGUSR1)
        before = server.cpu_seconds()
        yield lambda count: self._profile(server, server.cpu_seconds() - before, count)

    def _profile(self, server: Server, cpu_seconds: float, count: int) -> Profile:
        server.signal(signal.SIGUSR2)
        deadline = time.monotonic() + WRITE_SECONDS
        while not self.file.exists():
            if time.monotonic() > deadline or not server.is_alive:
                raise Failed("the sampler wrote nothing")
            time.sleep(POLL_SECONDS)
        parts: Counter[str] = Counter()
        for stack, times in json.loads(self.file.read_text()):
            parts[part_of(stack)] += times
        return Profile(self.name, cpu_seconds / count * 1e6, parts.total(), parts)


def of_tokens(site: Site, seconds: float) -> Profile:
    sampler = Sampler(site.data_dir, "a token")
    credentials = make_client(site)
    with billhook(site.data_dir, settings=_environment(site), module=sampler.module, options=["--no-worker"]) as server:
        return _under_load(server, sampler, (auth_request(credentials),), 201, seconds)


def of_accepting(site: Site, seconds: float) -> Profile:
    sampler = Sampler(site.data_dir, "an accepted notification")
    doors, credentials = make_doors(site, "http://127.0.0.1:9/hook", 4), make_client(site)
    with billhook(site.data_dir, settings=_environment(site), module=sampler.module, options=["--no-worker"]) as server:
        return _under_load(server, sampler, send_requests(server, credentials, doors), 202, seconds)


def _under_load(server: Server, sampler: Sampler, requests: tuple[str, ...], status: int, seconds: float) -> Profile:
    def run(for_seconds: float) -> load.Result:
        plan = load.Plan(port=server.port, requests=requests, connections=CONNECTIONS, seconds=for_seconds)
        result, _ = load.run(plan, meter=server.cpu_seconds)
        if set(result.statuses) != {status}:
            raise Failed(f"answered {result.statuses}, so this would measure something else")
        return result

    run(WARM_UP_SECONDS)
    with sampler.on(server) as profile:
        return profile(run(seconds).count)


def of_delivering(site: Site, to: Receiver, count: int) -> Profile:
    sampler = Sampler(site.data_dir, "a delivery")
    queue_up(site, make_doors(site, to.url(), PROVIDERS, organizations=ORGANIZATIONS), count)
    site.settle()
    to.reset()
    with billhook_worker(site.data_dir, settings=_environment(site), module=sampler.module) as worker:
        to.wait_for(WARM_UP_DELIVERIES, seconds=_patience(WARM_UP_DELIVERIES), by=[worker])
        with sampler.on(worker) as profile:
            begun = to.tally().distinct
            to.wait_for(count, seconds=_patience(count), by=[worker])
            return profile(count - begun)


def _patience(count: int) -> float:
    return START_SECONDS + count / SLOWEST


def _environment(site: Site) -> dict[str, str]:
    return {**site.environment, "PYTHONPATH": str(ROOT)}


def measure(on: Engine, *, seconds: float, deliveries: int) -> Iterator[Profile]:
    with on.site() as site:
        yield of_tokens(site, seconds)
    with on.site() as site:
        yield of_accepting(site, seconds)
    with on.site() as site, receiver() as to:
        yield of_delivering(site, to, deliveries)


def run(*, seconds: float, deliveries: int) -> int:
    with engine("postgres") as on:
        for profile in measure(on, seconds=seconds, deliveries=deliveries):
            print(profile.table(), end="\n\n", flush=True)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench profile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of load for tokens and accepting (10)")
    parser.add_argument("--deliveries", type=int, default=20_000, help="of a backlog (20000)")
    options = parser.parse_args(arguments)
    return command.carry_out(lambda: run(seconds=options.seconds, deliveries=options.deliveries))


if __name__ == "__main__":
    sys.exit(main())
