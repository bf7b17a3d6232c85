"""What a token costs: Billhook against oidc-provider, against bare signing, and with 10 clients against 100,000."""

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from statistics import median

from bench import command, load, report
from bench.credentials import Credentials, auth_request
from bench.peers.oidc_provider import oidc_provider, token_request
from bench.report import Figure, Goal, Report, at_least, at_most
from bench.seed import seed_clients
from bench.servers import Failed, Server, billhook, create_client
from bench.signing import busy_neighbour, signing_microseconds

CPU_ADVANTAGE = 2.5  # over oidc-provider, the leanest peer that signs the same kind of token
SIGNING_SHARE = 0.25  # of the rate at which the core signs and does nothing else
GROWTH = 1.10  # a token may cost a tenth more with the many clients than with the few
FEW_CLIENTS = 10
STARTS = 3
WARM_UP_SECONDS = 3.0  # V8 needs about two until its hot code is optimised
HALF_LOAD_SECONDS = 5.0
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


def alternate(targets: Sequence[Target], options: Options) -> Iterator[list[Round]]:
    """Each target once per round, in turn: whatever disturbs the machine disturbs them all."""
    for target in targets:
        measure(target, seconds=WARM_UP_SECONDS)
    for _ in range(options.rounds):
        yield [measure(target, seconds=options.seconds) for target in targets]


@dataclass(frozen=True)
class Issuing:
    """One Billhook against oidc-provider and against the bare signature, round by round."""

    ours: list[Round]
    peer: list[Round]
    signing: list[float]  # CPU microseconds of a bare signature, the generator's core idle
    signing_beside: list[float]  # and the generator's core busy, as it is while a server is measured
    half_load: Round
    our_rss: float  # MiB
    peer_rss: float


def issuing(options: Options) -> Report:
    with billhook_with_one_client() as ours, oidc_provider() as peer_server:
        peer = Target(peer_server, (token_request(),), expected_status=200)
        measured = _measure_issuing(ours, peer, options)
    return Report(_issuing_figures(measured), _issuing_goals(measured))


def _measure_issuing(ours: Target, peer: Target, options: Options) -> Issuing:
    our_rounds, peer_rounds, signing, signing_beside = [], [], [], []
    for our_round, peer_round in alternate([ours, peer], options):
        our_rounds.append(our_round)
        peer_rounds.append(peer_round)
        signing.append(signing_microseconds(SIGNING_SECONDS))
        with busy_neighbour():
            signing_beside.append(signing_microseconds(SIGNING_SECONDS))
    return Issuing(
        ours=our_rounds,
        peer=peer_rounds,
        signing=signing,
        signing_beside=signing_beside,
        half_load=measure(ours, seconds=HALF_LOAD_SECONDS, rate=typical(our_rounds).per_second / 2),
        our_rss=_mebibytes(ours),
        peer_rss=_mebibytes(peer),
    )


def _issuing_figures(measured: Issuing) -> list[Figure]:
    ours, peer = typical(measured.ours), typical(measured.peer)
    return [
        Figure("CPU per token, billhook", ours.cpu_microseconds, "us"),
        Figure("CPU per token, oidc-provider", peer.cpu_microseconds, "us"),
        Figure("throughput of one process, billhook", ours.per_second, "tokens/s"),
        Figure("throughput of one process, oidc-provider", peer.per_second, "tokens/s"),
        Figure("bare ES256 signing", median(measured.signing), "us"),
        Figure("bare ES256 signing, one core", 1e6 / median(measured.signing), "per s"),
        Figure("bare ES256 signing, the other core busy", median(measured.signing_beside), "us"),
        Figure("share of the rate of bare signing, the other core busy", _share(measured, measured.signing_beside), ""),
        *_latencies("at saturation", ours),
        *_latencies("at half load", measured.half_load),
        Figure("RSS, billhook", measured.our_rss, "MiB"),
        Figure("RSS, oidc-provider", measured.peer_rss, "MiB"),
    ]


def _latencies(when: str, measured: Round) -> list[Figure]:
    p50, p99 = measured.p50 * 1e3, measured.p99 * 1e3
    return [Figure(f"billhook p50 {when}", p50, "ms"), Figure(f"billhook p99 {when}", p99, "ms")]


def _issuing_goals(measured: Issuing) -> list[Goal]:
    advantage = typical_ratio(_cpu(measured.peer), _cpu(measured.ours))
    share = _share(measured, measured.signing)
    return [
        at_least("oidc-provider's CPU per token over billhook's", advantage, CPU_ADVANTAGE),
        at_least("billhook's tokens per CPU second over bare signatures", share, SIGNING_SHARE),
    ]


def _share(measured: Issuing, signing: Sequence[float]) -> float:
    return typical_ratio(signing, _cpu(measured.ours))


def growing(options: Options) -> Report:
    """Two installations that differ only in how many clients are registered.

    They are started several times: where a process lies in memory makes up to a fifth, for as long as it lives.
    """
    pairs: list[list[Round]] = []
    with installation_with_clients(FEW_CLIENTS) as a_few, installation_with_clients(options.clients) as a_lot:
        for _ in range(STARTS):
            with a_few() as few, a_lot() as many:
                pairs += alternate([few, many], replace(options, rounds=math.ceil(options.rounds / STARTS)))
                rss = _mebibytes(many)
    few_rounds, many_rounds = zip(*pairs, strict=True)
    few_cpu, many_cpu = _cpu(few_rounds), _cpu(many_rounds)
    many_name = f"{options.clients:,} clients"
    figures = [
        Figure(f"CPU per token, {FEW_CLIENTS} clients", median(few_cpu), "us"),
        Figure(f"CPU per token, {many_name}", median(many_cpu), "us"),
        Figure(f"RSS, {many_name}", rss, "MiB"),
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
def billhook_with_one_client() -> Iterator[Target]:
    with _data_dir() as data_dir:
        credentials = create_client(data_dir, "bench")
        with billhook(data_dir) as server:
            yield _token_target(server, [credentials])


@contextmanager
def installation_with_clients(count: int) -> Iterator[Callable[[], AbstractContextManager[Target]]]:
    """What it yields starts a server there."""
    with _data_dir() as data_dir:
        credentials = seed_clients(data_dir, count)

        @contextmanager
        def started() -> Iterator[Target]:
            with billhook(data_dir) as server:
                yield _token_target(server, credentials)

        yield started


def _token_target(server: Server, credentials: Sequence[Credentials]) -> Target:
    return Target(server, tuple(auth_request(each) for each in credentials), expected_status=201)


@contextmanager
def _data_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as path:
        yield Path(path)


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="scripts/bench auth", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="how often each server is measured (9)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (2)")
    parser.add_argument("--clients", type=int, default=100_000, help="clients in the large installation (100000)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    return Options(**vars(parser.parse_args(arguments)))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    return command.carry_out(lambda: report.conclude([issuing(options), growing(options)], as_document=options.json))


if __name__ == "__main__":
    sys.exit(main())
