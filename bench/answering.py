"""What senders see: how many notifications a second are accepted, and how soon each is at its receiver."""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from time import monotonic, sleep

from bench import load
from bench.affinity import GENERATOR_CORE
from bench.backlog import make_client, make_doors, queue_up, send_requests
from bench.engines import Engine, Site
from bench.receiver import POLL_SECONDS, Receiver, receiver
from bench.report import Figure, Report, at_least, at_most
from bench.sender import Plan, Sender, sender
from bench.servers import Failed, Server, billhook

ACCEPTED_PER_SECOND = 1500
IDLE_MS = 20  # p50 from the 202 to the receiver's first byte
HUNG_CHANGE = 1.10  # of the others' p99
DOORS = 4
CONNECTIONS = 64
WARM_UP_SECONDS = 1.0
WARM_UP_SENDS, WARM_UP_RATE = 20, 100.0
IDLE_SENDS, IDLE_RATE = 40, 4.0
STEADY_RATE = 200.0
BESIDE_RATE = 20.0  # of each of two servers on one core, which must not be full, or waiting for it is all that is seen
SECONDS = 10.0  # with what hangs: shorter than an attempt (15 s), so that all of it hangs from start to end
BESIDE_COUNT = int(BESIDE_RATE * SECONDS)
HUNG_ROWS = 10_000
HUNG_AT_ONCE = 10  # of one provider
ARRIVAL_SECONDS = 30.0


@dataclass(frozen=True)
class Trips:
    """Milliseconds to the receiver's first byte, in order."""

    from_request: list[float]
    from_answer: list[float]  # below zero where it arrived before the sender had its 202
    cpu_seconds: float  # of the server, for all of them


@dataclass(frozen=True)
class Running:
    """A server, what to send it, and who sends and receives."""

    server: Server
    requests: tuple[str, ...]
    by: Sender
    to: Receiver

    def trips(self, count: int, rate: float) -> Trips:
        before = self.server.cpu_seconds()
        sent = self.by.send(Plan(self.server.port, self.requests, count, rate))
        deadline = monotonic() + ARRIVAL_SECONDS
        while missing := {each.delivery_id for each in sent} - (moments := self.to.moments()).keys():
            if monotonic() > deadline:
                raise Failed(f"{len(missing)} of {count} deliveries did not arrive within {ARRIVAL_SECONDS:.0f} s")
            sleep(POLL_SECONDS)
        return Trips(
            sorted((moments[each.delivery_id] - each.sent_at) * 1e3 for each in sent),
            sorted((moments[each.delivery_id] - each.answered_at) * 1e3 for each in sent),
            self.server.cpu_seconds() - before,
        )


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


@contextmanager
def _running(site: Site, by: Sender, to: Receiver) -> Iterator[Running]:
    """`billhook serve` with its worker, warmed up."""
    doors, credentials = make_doors(site, to.url(), DOORS), make_client(site)
    site.settle()
    to.reset()
    with billhook(site.data_dir, settings=site.environment) as server:
        running = Running(server, send_requests(server, credentials, doors), by, to)
        running.trips(WARM_UP_SENDS, WARM_UP_RATE)
        yield running


def accepting(engine: Engine, *, seconds: float, rounds: int) -> Report:
    results, cpu, database_cpu = [], [], []
    with engine.site() as site:
        doors, credentials = make_doors(site, "http://127.0.0.1:9/hook", DOORS), make_client(site)
        with billhook(site.data_dir, settings=site.environment, options=["--no-worker"]) as server:
            requests = send_requests(server, credentials, doors)
            _accept(server, requests, WARM_UP_SECONDS)
            for _ in range(rounds):
                before = engine.cpu_seconds()
                result, spent = _accept(server, requests, seconds)
                results.append(result)
                cpu.append(spent / result.count * 1e6)
                database_cpu.append((engine.cpu_seconds() - before) / result.count * 1e6)
                _tell(engine, f"accepted {result.per_second:,.0f}/s")
    name = f"{engine.name}: accept"
    figures = [
        Figure(f"{name}, p50 of {CONNECTIONS} connections", median(each.p50 for each in results) * 1e3, "ms"),
        Figure(f"{name}, p99 of {CONNECTIONS} connections", median(each.p99 for each in results) * 1e3, "ms"),
        Figure(f"{name}, CPU of the server", median(cpu), "us"),
    ]
    if engine.postgres is not None:
        figures.append(Figure(f"{name}, CPU of PostgreSQL", median(database_cpu), "us"))
    rate = median(each.per_second for each in results)
    return Report(figures, [at_least(f"{name}ed notifications per second", rate, ACCEPTED_PER_SECOND)])


def _accept(server: Server, requests: tuple[str, ...], seconds: float) -> tuple[load.Result, float]:
    plan = load.Plan(port=server.port, requests=requests, connections=CONNECTIONS, seconds=seconds)
    result, spent = load.run(plan, meter=server.cpu_seconds)
    if set(result.statuses) != {202}:
        raise Failed(f"sends were answered {result.statuses}, so this would not measure accepting")
    return result, spent


def travelling(engine: Engine) -> Report:
    """Latency with nothing else to do, and at a steady pace."""
    with sender() as by, receiver(core=GENERATOR_CORE) as to, engine.site() as site, _running(site, by, to) as running:
        idle = running.trips(IDLE_SENDS, IDLE_RATE)
        steady = running.trips(int(STEADY_RATE * SECONDS), STEADY_RATE)
    _tell(engine, "latency measured")
    at = f"{engine.name}: at {STEADY_RATE:.0f}/s"
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    figures = [
        Figure(f"{engine.name}: idle, request to first byte, p50", quantile(idle.from_request, 0.5), "ms"),
        *(Figure(f"{at}, 202 to first byte, {p}", quantile(steady.from_answer, shares[p]), "ms") for p in shares),
        *(Figure(f"{at}, request to first byte, {p}", quantile(steady.from_request, shares[p]), "ms") for p in shares),
    ]
    p50 = quantile(idle.from_answer, 0.5)
    return Report(figures, [at_most(f"{engine.name}: idle, 202 to first byte, p50 in ms", p50, IDLE_MS)])


def beside_hung(engine: Engine, *, rounds: int) -> Report:
    """The others' latency without and with a provider that hangs: two servers at the same time, in the same weather."""
    pairs = []
    with ExitStack() as stack:
        senders = [stack.enter_context(sender()) for _ in range(2)]
        to = stack.enter_context(receiver(core=GENERATOR_CORE))
        for _ in range(rounds):
            pairs.append(_beside(engine, senders, to))
            p99s = [quantile(each.from_request, 0.99) for each in pairs[-1]]
            _tell(engine, f"p99 of the others {p99s[0]:.1f} ms, beside what hangs {p99s[1]:.1f} ms")
    plain, beside = ([pair[place] for pair in pairs] for place in range(2))
    name = f"{engine.name}: others at {BESIDE_RATE:.0f}/s"
    figures = [*_of_all(name, plain), *_of_all(f"{name} beside a hung provider", beside)]
    change = median(quantile(with_it.from_request, 0.99) / quantile(bare.from_request, 0.99) for bare, with_it in pairs)
    return Report(figures, [at_most(f"{engine.name}: others' p99 beside a hung provider", change, HUNG_CHANGE)])


def _of_all(name: str, rounds: Sequence[Trips]) -> list[Figure]:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    cpu = sum(each.cpu_seconds for each in rounds) / sum(len(each.from_request) for each in rounds)
    return [
        *(Figure(f"{name}, to first byte, {p}", _quantile_of_all(rounds, shares[p]), "ms") for p in shares),
        Figure(f"{name}, CPU of the server for each", cpu * 1e3, "ms"),
    ]


def _quantile_of_all(rounds: Sequence[Trips], share: float) -> float:
    return quantile(sorted(trip for each in rounds for trip in each.from_request), share)


def _beside(engine: Engine, senders: Sequence[Sender], to: Receiver) -> tuple[Trips, Trips]:
    """One round in two new installations. Both are sent to in turn, so that what disturbs one disturbs the other."""
    with ExitStack() as stack:
        sites = [stack.enter_context(engine.site()) for _ in senders]
        queue_up(sites[1], make_doors(sites[1], to.url("/hang"), 1), HUNG_ROWS)
        plain, beside = (stack.enter_context(_running(*each, to)) for each in zip(sites, senders, strict=True))
        _must_hang(to, HUNG_AT_ONCE)
        with ThreadPoolExecutor() as pool:
            first = pool.submit(plain.trips, BESIDE_COUNT, BESIDE_RATE)
            sleep(0.5 / BESIDE_RATE)
            second = pool.submit(beside.trips, BESIDE_COUNT, BESIDE_RATE)
            trips = first.result(), second.result()
        _must_hang(to, HUNG_AT_ONCE)
        beside.server.process.kill()  # or it would wait for what hangs, as it should
    return trips


def _must_hang(to: Receiver, expected: int) -> None:
    found = to.tally().hanging
    if found != expected:
        raise Failed(
            f"{found} requests hang at the receiver where {expected} should: this would measure something else"
        )


def _tell(engine: Engine, what: str) -> None:
    print(f"{engine.name}: {what}", file=sys.stderr, flush=True)
