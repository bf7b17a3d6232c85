"""How fast a worker drains a backlog: against a bare client, and with a million other rows against ten thousand."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean, median

from bench.backlog import BODY, Door, make_doors, queue_up
from bench.bare import Posted, post_bare
from bench.engines import Engine, Site
from bench.history import fill
from bench.receiver import Receiver, receiver
from bench.report import Figure, Report, at_least, tell
from bench.servers import Failed, billhook_worker

BARE_SHARE = 0.5  # of the bare client's rate
MANY_SHARE = 0.9  # of the rate with few other rows
PROVIDERS = 50  # that each may have ten under way: with ten organizations, as many as a process takes
ORGANIZATIONS = 10
FEW_ROWS = 10_000
START_SECONDS = 60.0
SLOWEST = 50  # deliveries a second; a worker that is slower has stopped


@dataclass(frozen=True)
class Drained:
    per_second: float  # from the first to the last arrival
    worker_microseconds: float  # CPU of each delivery
    database_microseconds: float
    receiver_microseconds: float
    repeats: int  # that arrived more than once
    worker_mebibytes: float  # in the end

    @property
    def microseconds(self) -> float:
        """CPU of each delivery, the database's included."""
        return self.worker_microseconds + self.database_microseconds


def drain(site: Site, to: Receiver, count: int, *, is_all: bool = True) -> Drained:
    """Start a worker on the backlog of the site and see that many arrive, which are all unless more waits behind."""
    to.reset()
    with billhook_worker(site.data_dir, settings=site.environment) as worker:
        meters = (worker.cpu_seconds, site.engine.cpu_seconds, to.cpu_seconds)
        begun = to.wait_for(1, seconds=START_SECONDS, by=[worker])
        before = [meter() for meter in meters]
        ended = to.wait_for(count, seconds=30 + count / SLOWEST, by=[worker])
        each = max(ended.count - begun.count, 1)
        worked, stored, received = (
            (meter() - earlier) / each * 1e6 for meter, earlier in zip(meters, before, strict=True)
        )
        mebibytes = worker.rss_bytes() / 2**20
    if is_all and ended.distinct != count:
        raise Failed(f"{ended.distinct} deliveries arrived where {count} were due: this would measure something else")
    repeats = ended.count - ended.distinct
    return Drained(ended.per_second, worked, stored, received, repeats=repeats, worker_mebibytes=mebibytes)


def draining(engine: Engine, *, deliveries: int, rounds: int) -> Report:
    """The worker and the bare client in turn; each worker is held against the client before and after it."""
    workers: list[Drained] = []
    with receiver() as to:
        bare = [post_bare(to, BODY, deliveries)]
        for _ in range(rounds):
            workers.append(_drain_fresh(engine, to, deliveries))
            bare.append(post_bare(to, BODY, deliveries))
            tell(f"{engine.name}: drained {workers[-1].per_second:,.0f}/s, bare {bare[-1].per_second:,.0f}/s")
    around = [mean([before.per_second, after.per_second]) for before, after in zip(bare, bare[1:], strict=False)]
    ratio = median(worker.per_second / rate for worker, rate in zip(workers, around, strict=True))
    goal = at_least(f"{engine.name}: drain rate over a bare client's", ratio, BARE_SHARE)
    return Report(_drain_figures(engine, workers, bare), [goal])


def _drain_fresh(engine: Engine, to: Receiver, deliveries: int) -> Drained:
    with engine.site() as site:
        doors = make_doors(site, to.url(), PROVIDERS, organizations=ORGANIZATIONS)
        queue_up(site, doors, deliveries)
        site.settle()
        return drain(site, to, deliveries)


def _drain_figures(engine: Engine, workers: list[Drained], bare: list[Posted]) -> list[Figure]:
    name = engine.name
    figures = [
        Figure(f"{name}: drain rate, one worker", median(each.per_second for each in workers), "per s"),
        Figure(f"{name}: rate of a bare aiohttp client", median(each.per_second for each in bare), "per s"),
        Figure(f"{name}: CPU per delivery, worker", median(each.worker_microseconds for each in workers), "us"),
        Figure(f"{name}: CPU per delivery, bare client", median(each.cpu_microseconds for each in bare), "us"),
        Figure(f"{name}: CPU per delivery, receiver", median(each.receiver_microseconds for each in workers), "us"),
        Figure(f"{name}: deliveries that came twice", sum(each.repeats for each in workers), ""),
    ]
    if engine.postgres is not None:
        server = median(each.database_microseconds for each in workers)
        figures.insert(4, Figure(f"{name}: CPU per delivery, PostgreSQL", server, "us"))
    return figures


def growing(engine: Engine, *, deliveries: int, rows: int, rounds: int) -> Report:
    """Two databases that differ only in how much is in them beside what is drained; they take turns."""
    pairs: list[tuple[Drained, Drained]] = []
    with receiver() as to, _crowded(engine, to, FEW_ROWS) as few, _crowded(engine, to, rows) as many:
        for crowd in (few, many):
            crowd.drain(to, deliveries)  # to warm up
        for _ in range(rounds):
            pairs.append((few.drain(to, deliveries), many.drain(to, deliveries)))
            told = [f"{each.per_second:,.0f}/s, {each.microseconds:,.0f} us" for each in pairs[-1]]
            tell(f"{engine.name}: {told[0]} with {FEW_ROWS:,} rows; {told[1]} with {rows:,}")
    figures = []
    for place, count in enumerate((FEW_ROWS, rows)):
        rate, cpu = (median(getattr(pair[place], what) for pair in pairs) for what in ("per_second", "microseconds"))
        figures.append(Figure(f"{engine.name}: drain rate, {count:,} other rows", rate, "per s"))
        figures.append(Figure(f"{engine.name}: CPU per delivery, {count:,} other rows", cpu, "us"))
    ratio = median(crowded.per_second / alone.per_second for alone, crowded in pairs)
    name = f"{engine.name}: drain rate, {rows:,} other rows over {FEW_ROWS:,}"
    return Report(figures, [at_least(name, ratio, MANY_SHARE)])


@dataclass(frozen=True)
class Crowd:
    """A site with other rows, and the doors that are drained."""

    site: Site
    doors: list[Door]

    def drain(self, to: Receiver, deliveries: int) -> Drained:
        queue_up(self.site, self.doors, deliveries)
        self.site.settle()
        return drain(self.site, to, deliveries)


@contextmanager
def _crowded(engine: Engine, to: Receiver, rows: int) -> Iterator[Crowd]:
    with engine.site() as site:
        doors = make_doors(site, to.url(), 3 * PROVIDERS, organizations=ORGANIZATIONS)
        drained, later, broken = doors[:PROVIDERS], doors[PROVIDERS : 2 * PROVIDERS], doors[2 * PROVIDERS :]
        began = time.monotonic()
        fill(site, rows, finished=doors, later=later, broken=broken)
        tell(f"{engine.name}: {rows:,} rows made in {time.monotonic() - began:.0f} s")
        yield Crowd(site, drained)
