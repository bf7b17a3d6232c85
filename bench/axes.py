"""Along what cost may grow: clients, providers, what waits, what is finished, workers. One function for each.

The installations of all sizes stand side by side and take turns, so that whatever disturbs the machine disturbs them
all. The steady figure is CPU time: rates depend on who else uses the cores.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import asyncpg

from bench import auth
from bench.auth import Target
from bench.backlog import Door, count_pending, make_doors, queue_up
from bench.bulk import add_due, add_finished, copy_doors
from bench.credentials import auth_request
from bench.draining import ORGANIZATIONS, PROVIDERS, SLOWEST, drain
from bench.engines import Engine, Site, execute
from bench.receiver import Receiver, receiver
from bench.report import tell
from bench.seed import seed_installation
from bench.servers import Failed, Server, billhook, billhook_worker
from billhook.delivery.context import CHANNEL

ROW_BYTES = 3000  # of disk for a finished delivery while it is made, with its attempt, indexes and log
START_SECONDS = 120.0
BREATH_SECONDS = 1.0  # after they have begun to listen: they look once, and do their first chores
AHEAD_SECONDS = 30
READY_SECONDS = 15.0  # that a worker has at least to start in
SETTLE_SECONDS = 0.1
FILLED_PER_SECOND = 10_000  # rows; several times as many on a calm machine
LATER_SECONDS = 3600
DUE_NOW = f"UPDATE deliveries SET due_ms = due_ms - {LATER_SECONDS * 1000} WHERE state = 'pending'"  # noqa: S608
LISTENING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE $1"


@dataclass(frozen=True)
class Effort:
    rounds: int
    deliveries: int  # of one drain
    seconds: float  # of one measurement of tokens


@dataclass(frozen=True)
class Sample:
    """One measurement. CPU microseconds are for each token or delivery."""

    cpu_us: float  # of the API, or of all workers together
    database_us: float  # of PostgreSQL's processes; SQLite's share is in the one above
    per_second: float
    mebibytes: float  # resident, of the API or of one worker
    repeats: int = 0  # deliveries that arrived more than once


Samples = dict[int, list[Sample]]  # by size, a round each
Turn = Callable[[], Sample]
Keep = Callable[[Samples], None]


def take_turns(name: str, on: Engine, turns: dict[int, Turn], rounds: int, keep: Keep) -> None:
    """Whole rounds are kept as they end, and of the first one each size: a large one may fail after an hour."""
    samples: Samples = {}
    for number in range(rounds):
        for size, turn in turns.items():
            sample = turn()
            samples.setdefault(size, []).append(sample)
            if number == 0 or size == max(turns):
                keep(samples)
            cost = f"{sample.cpu_us:,.0f} + {sample.database_us:,.0f} us"
            tell(f"{on.name}: round {number + 1}, {size:,} {name}: {cost}, {sample.per_second:,.0f}/s")


def clients(on: Engine, sizes: Sequence[int], effort: Effort, keep: Keep) -> None:
    """Tokens, with so many clients registered."""
    with ExitStack() as stack:
        turns: dict[int, Turn] = {}
        for size in sizes:
            target = stack.enter_context(_issuing(on, size))
            tell(f"{on.name}: {size:,} clients: registered")
            auth.measure(target, seconds=auth.WARM_UP_SECONDS)
            turns[size] = partial(_tokens, target, effort)
        take_turns("clients", on, turns, effort.rounds, keep)


@contextmanager
def _issuing(on: Engine, size: int) -> Iterator[Target]:
    with on.site() as site:
        credentials = seed_installation(site.settings, size)
        with billhook(site.data_dir, settings=site.environment, options=["--no-worker"]) as server:
            yield Target(server, tuple(auth_request(each) for each in credentials), expected_status=201)


def _tokens(target: Target, effort: Effort) -> Sample:
    measured = auth.measure(target, seconds=effort.seconds)
    return Sample(measured.cpu_microseconds, 0.0, measured.per_second, target.server.rss_bytes() / 2**20)


def providers(on: Engine, sizes: Sequence[int], effort: Effort, keep: Keep) -> None:
    """A backlog in turn over so many providers, at least one delivery for each."""

    def prepare(site: Site, to: Receiver, size: int) -> Turn:
        few = min(size, ORGANIZATIONS)
        doors = copy_doors(site, make_doors(site, to.url(), few, organizations=few), size)
        count = max(effort.deliveries, size)
        return lambda: _drain(site, to, doors, waiting=count, count=count)

    _side_by_side("providers", on, sizes, effort, prepare, keep)


def backlog(on: Engine, sizes: Sequence[int], effort: Effort, keep: Keep) -> None:
    """The first deliveries out of so many that all fall due at one moment."""
    with receiver() as to:
        turns: dict[int, Turn] = {
            size: partial(_first_of, on, to, size, min(effort.deliveries, size)) for size in sizes
        }
        take_turns("waiting", on, turns, effort.rounds, keep)


def _first_of(on: Engine, to: Receiver, size: int, count: int) -> Sample:
    """The worker is there before anything is due: of a few, half would be under way before the first has arrived.

    So what is measured begins with nothing in the air. Where all of them are counted it ends with all outcomes written
    down; out of many more, others are in the air by then, whose cost is counted for those that have arrived.
    """
    ahead = int(AHEAD_SECONDS + size / FILLED_PER_SECOND)
    due_at = time.time() + ahead
    with on.site() as site:
        doors = make_doors(site, to.url(), PROVIDERS, organizations=ORGANIZATIONS)
        add_due(site, doors, size, in_seconds=ahead)
        site.settle()
        to.reset()
        with billhook_worker(site.data_dir, settings=site.environment) as worker:
            if (left := due_at - time.time()) < READY_SECONDS:
                raise Failed(f"{size:,} deliveries are due in {left:.0f} s already: too soon to start a worker")
            time.sleep(left - BREATH_SECONDS)
            worked, stored = worker.cpu_seconds(), site.engine.cpu_seconds()
            tally = to.wait_for(count, seconds=30 + count / SLOWEST, by=[worker])
            while count == size and count_pending(site) > 0:
                time.sleep(SETTLE_SECONDS)
            worked, stored = worker.cpu_seconds() - worked, site.engine.cpu_seconds() - stored
            mebibytes = worker.rss_bytes() / 2**20
    each = 1e6 / tally.count
    return Sample(worked * each, stored * each, tally.per_second, mebibytes, tally.count - tally.distinct)


def history(on: Engine, sizes: Sequence[int], effort: Effort, keep: Keep) -> None:
    """A backlog beside so many finished deliveries, of the same providers and with an attempt each."""

    def prepare(site: Site, to: Receiver, size: int) -> Turn:
        doors = make_doors(site, to.url(), PROVIDERS, organizations=ORGANIZATIONS)
        add_finished(site, doors, size)
        return lambda: _drain(site, to, doors, waiting=effort.deliveries, count=effort.deliveries)

    fitting = [size for size in sizes if _has_room(on, size)]
    _side_by_side("finished", on, fitting, effort, prepare, keep)


def _has_room(on: Engine, rows: int) -> bool:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if fits := rows * ROW_BYTES <= free:
        return fits
    needed = f"they need {rows * ROW_BYTES / 2**30:.0f} GiB, and {free / 2**30:.0f} are free"
    tell(f"{on.name}: {rows:,} rows are left out: {needed}")
    return False


def _side_by_side(
    name: str,
    on: Engine,
    sizes: Sequence[int],
    effort: Effort,
    prepare: Callable[[Site, Receiver, int], Turn],
    keep: Keep,
) -> None:
    with receiver() as to, ExitStack() as stack:
        turns: dict[int, Turn] = {}
        for size in sizes:
            began = time.monotonic()
            turns[size] = prepare(stack.enter_context(on.site()), to, size)
            tell(f"{on.name}: {size:,} {name}: made in {time.monotonic() - began:.0f} s")
        take_turns(name, on, turns, effort.rounds, keep)


def _drain(site: Site, to: Receiver, doors: list[Door], *, waiting: int, count: int) -> Sample:
    """Fill up what is due to `waiting`, and see `count` of it arrive."""
    queue_up(site, doors, max(waiting - count_pending(site), 0))
    site.settle()
    done = drain(site, to, count, is_all=count == waiting)
    cpu_us, database_us = done.worker_microseconds, done.database_microseconds
    return Sample(cpu_us, database_us, done.per_second, done.worker_mebibytes, done.repeats)


def workers(on: Engine, sizes: Sequence[int], effort: Effort, keep: Keep) -> None:
    """One backlog and so many workers, all there before anything is due. Only over PostgreSQL."""
    if on.postgres is None:
        return
    with receiver() as to, on.site() as site:
        doors = make_doors(site, to.url(), PROVIDERS, organizations=ORGANIZATIONS)
        turns: dict[int, Turn] = {
            size: partial(_drain_together, site, to, doors, size, effort.deliveries) for size in sizes
        }
        take_turns("workers", on, turns, effort.rounds, keep)


def _drain_together(site: Site, to: Receiver, doors: list[Door], size: int, count: int) -> Sample:
    to.reset()
    add_due(site, doors, count, in_seconds=LATER_SECONDS)
    site.settle()
    with ExitStack() as stack:
        started = [
            stack.enter_context(billhook_worker(site.data_dir, settings=site.environment, log=f"worker{number}.log"))
            for number in range(size)
        ]
        asyncio.run(_all_listen(site, size))
        time.sleep(BREATH_SECONDS)
        before = _cpu_seconds(started)
        asyncio.run(execute(site.location, DUE_NOW))
        database_before = site.engine.cpu_seconds()
        asyncio.run(execute(site.location, f"NOTIFY {CHANNEL}"))
        tally = to.wait_for(count, seconds=30 + count / SLOWEST, by=started)
        worked, stored = _cpu_seconds(started) - before, site.engine.cpu_seconds() - database_before
        mebibytes = max(worker.rss_bytes() for worker in started) / 2**20
    return Sample(worked / count * 1e6, stored / count * 1e6, tally.per_second, mebibytes, to.tally().count - count)


async def _all_listen(site: Site, size: int) -> None:
    """Starting a process costs more than a thousand deliveries, so they are waited for."""
    connection = await asyncpg.connect(site.location, timeout=10)
    try:
        deadline = time.monotonic() + START_SECONDS
        while (found := await connection.fetchval(LISTENING, f"LISTEN%{CHANNEL}%")) < size:
            if time.monotonic() > deadline:
                raise Failed(f"{found} of {size} workers were listening after {START_SECONDS:.0f} s")
            await asyncio.sleep(0.1)
    finally:
        await connection.close()


def _cpu_seconds(started: list[Server]) -> float:
    return sum(worker.cpu_seconds() for worker in started)
