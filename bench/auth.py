"""What a token costs: Billhook against oidc-provider, against bare signing, and with 10 clients against 100,000."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

from bench import command, load, report
from bench.credentials import Credentials, auth_request
from bench.peers.oidc_provider import oidc_provider, token_request
from bench.report import Figure, Goal, Report, at_least, at_most
from bench.seed import seed_clients
from bench.servers import Failed, Server, billhook
from bench.signing import busy_neighbour, signing_microseconds

CPU_ADVANTAGE = 2.5  # over oidc-provider, the leanest peer that signs the same kind of token
SIGNING_SHARE = 0.25  # of the rate at which the core signs and does nothing else
GROWTH = 1.10  # a token may cost a tenth more with the many clients than with the few
FEW_CLIENTS = 10
WARM_UP_SECONDS = 3.0  # V8 needs about two until its hot code is optimised
SIGNING_SECONDS = 0.7


@dataclass(frozen=True)
class Options:
    rounds: int
    seconds: float
    clients: int
    json: bool


@dataclass(frozen=True)
class Target:
    """A running server and what to send it."""

    server: Server
    requests: tuple[str, ...]
    expected_status: int
    connections: int = 32


@dataclass(frozen=True)
class Round:
    cpu_microseconds: float  # per token
    per_second: float
    p50: float
    p99: float


def measure(target: Target, *, seconds: float, rate: float | None = None) -> Round:
    plan = load.Plan(
        port=target.server.port,
        requests=target.requests,
        connections=target.connections,
        seconds=seconds,
        rate=rate,
    )
    result, cpu_seconds = load.run(plan, meter=target.server.cpu_seconds)
    if set(result.statuses) != {target.expected_status}:
        raise Failed(f"{target.server.name} answered {result.statuses}, so this would not measure tokens")
    return Round(cpu_seconds / result.count * 1e6, result.per_second, result.p50, result.p99)


Start = Callable[[], AbstractContextManager[Target]]


@contextmanager
def started(*starts: Start) -> Iterator[list[Target]]:
    """Running and warm."""
    with ExitStack() as stack:
        targets = [stack.enter_context(start()) for start in starts]
        for target in targets:
            measure(target, seconds=WARM_UP_SECONDS)
        yield targets


@dataclass(frozen=True)
class Issuing:
    """A round of one Billhook against oidc-provider and against the bare signature."""

    ours: Round
    peer: Round
    signing: float  # CPU microseconds of a bare signature, the generator's core idle
    signing_beside: float  # and the generator's core busy, as it is while a server is measured
    half_load: Round
    our_rss: float  # MiB
    peer_rss: float


def issuing(options: Options) -> Report:
    """Ours is started anew for each round: where a process lies in memory makes up to a fifth, for as long as it lives.

    The peer is started once, because V8 goes on optimising for longer than a round lasts.
    """
    with installation_with_clients(1) as start, started(_peer) as (peer,):
        rounds = [_measure_issuing(start, peer, options.seconds) for _ in range(options.rounds)]
    return Report(_issuing_figures(rounds), _issuing_goals(rounds))


def _measure_issuing(start: Start, peer: Target, seconds: float) -> Issuing:
    with started(start) as (ours,):
        our_round, peer_round = measure(ours, seconds=seconds), measure(peer, seconds=seconds)
        signing = signing_microseconds(SIGNING_SECONDS)
        with busy_neighbour():
            signing_beside = signing_microseconds(SIGNING_SECONDS)
        half_load = measure(ours, seconds=seconds, rate=our_round.per_second / 2)
        return Issuing(our_round, peer_round, signing, signing_beside, half_load, _mebibytes(ours), _mebibytes(peer))


@contextmanager
def _peer() -> Iterator[Target]:
    with oidc_provider() as server:
        yield Target(server, (token_request(),), expected_status=200)


def _issuing_figures(rounds: Sequence[Issuing]) -> list[Figure]:
    ours, peer = typical([each.ours for each in rounds]), typical([each.peer for each in rounds])
    signing = median(each.signing for each in rounds)
    beside = typical_ratio([each.signing_beside for each in rounds], _cpu([each.ours for each in rounds]))
    return [
        Figure("CPU per token, billhook", ours.cpu_microseconds, "us"),
        Figure("CPU per token, oidc-provider", peer.cpu_microseconds, "us"),
        Figure("throughput of one process, billhook", ours.per_second, "tokens/s"),
        Figure("throughput of one process, oidc-provider", peer.per_second, "tokens/s"),
        Figure("bare ES256 signing", signing, "us"),
        Figure("bare ES256 signing, one core", 1e6 / signing, "per s"),
        Figure("bare ES256 signing, the other core busy", median(each.signing_beside for each in rounds), "us"),
        Figure("share of the rate of bare signing, the other core busy", beside, ""),
        *_latencies("at saturation", ours),
        *_latencies("at half load", typical([each.half_load for each in rounds])),
        Figure("RSS, billhook", median(each.our_rss for each in rounds), "MiB"),
        Figure("RSS, oidc-provider", median(each.peer_rss for each in rounds), "MiB"),
    ]


def _latencies(when: str, measured: Round) -> list[Figure]:
    p50, p99 = measured.p50 * 1e3, measured.p99 * 1e3
    return [Figure(f"billhook p50 {when}", p50, "ms"), Figure(f"billhook p99 {when}", p99, "ms")]


def _issuing_goals(rounds: Sequence[Issuing]) -> list[Goal]:
    ours, peer = _cpu([each.ours for each in rounds]), _cpu([each.peer for each in rounds])
    share = typical_ratio([each.signing for each in rounds], ours)
    return [
        at_least("oidc-provider's CPU per token over billhook's", typical_ratio(peer, ours), CPU_ADVANTAGE),
        at_least("billhook's tokens per CPU second over bare signatures", share, SIGNING_SHARE),
    ]


def growing(options: Options) -> Report:
    """Two installations: few clients that all ask, and many, of which some hundreds take turns in asking."""
    few_rounds, many_rounds, rss = [], [], []
    with installation_with_clients(FEW_CLIENTS) as a_few, installation_with_clients(options.clients) as a_lot:
        for _ in range(options.rounds):
            with started(a_few, a_lot) as (few, many):
                few_rounds.append(measure(few, seconds=options.seconds))
                many_rounds.append(measure(many, seconds=options.seconds))
                rss.append(_mebibytes(many))
    few_cpu, many_cpu = _cpu(few_rounds), _cpu(many_rounds)
    many_name = f"{options.clients:,} clients"
    figures = [
        Figure(f"CPU per token, {FEW_CLIENTS} clients", median(few_cpu), "us"),
        Figure(f"CPU per token, {many_name}", median(many_cpu), "us"),
        Figure(f"RSS, {many_name}", median(rss), "MiB"),
    ]
    growth = typical_ratio(many_cpu, few_cpu)
    return Report(figures, [at_most(f"CPU per token, {many_name} over {FEW_CLIENTS}", growth, GROWTH)])


def typical(rounds: Sequence[Round]) -> Round:
    """The median of each figure on its own; they need not come from the same round."""
    return Round(*(median(column) for column in zip(*map(astuple, rounds), strict=True)))


def typical_ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """The median of the ratios within each round: a machine that slows down between rounds does not change it."""
    return median(this / that for this, that in zip(these, those, strict=True))


def _cpu(rounds: Sequence[Round]) -> list[float]:
    return [r.cpu_microseconds for r in rounds]


def _mebibytes(target: Target) -> float:
    return target.server.rss_bytes() / 2**20


@contextmanager
def installation_with_clients(count: int) -> Iterator[Start]:
    with _data_dir() as data_dir:
        credentials = seed_clients(data_dir, count)

        @contextmanager
        def start() -> Iterator[Target]:
            with billhook(data_dir) as server:
                yield _token_target(server, credentials)

        yield start


def _token_target(server: Server, credentials: Sequence[Credentials]) -> Target:
    return Target(server, tuple(auth_request(each) for each in credentials), expected_status=201)


@contextmanager
def _data_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as path:
        yield Path(path)


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="scripts/bench auth", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=9, help="how often each server is measured; ours is started anew for each (9)"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (2)")
    parser.add_argument("--clients", type=int, default=100_000, help="clients in the large installation (100000)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    return Options(**vars(parser.parse_args(arguments)))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    return command.carry_out(lambda: report.conclude([issuing(options), growing(options)], as_document=options.json))


if __name__ == "__main__":
    sys.exit(main())
