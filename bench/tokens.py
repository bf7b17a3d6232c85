"""What a token costs here and elsewhere: others' token endpoints, and ours with slow hashes, in turn within one run."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench import command, report
from bench.auth import WARM_UP_SECONDS, Round, Target, measure, typical, typical_ratio
from bench.credentials import auth_request
from bench.peers import environment, oidc_provider
from bench.peers.python_servers import authlib_server, django_server
from bench.report import Goal, Report, at_least, tell
from bench.servers import Failed, Server, billhook, create_client
from bench.side_by_side import as_markdown, missing_row, number, one_line, reasons, start_all, times

OURS = "billhook"
SLOW_HASH = "bench.slow_hash"
ROOT = Path(__file__).parent.parent
MOST_WARM_UPS = 20  # where a busy machine gives a server little of the time
FEW_CONNECTIONS = 8  # for slow hashes: enough to saturate, and with 32 each would wait four times as long
HEADER = ("service", "secret kept as", "token", "CPU", "its / ours", "tokens/s", "ours / its", "p50", "p99", "memory")


@dataclass(frozen=True)
class Options:
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Entrant:
    name: str
    secret: str
    token: str
    start: Callable[[], AbstractContextManager[Target]]
    version: Callable[[], str] | None = None
    is_slow: bool = False

    @property
    def label(self) -> str:
        return self.version() if self.version else self.name


@dataclass
class Measured:
    rounds: dict[int, Round]  # by their number
    peak_bytes: int = 0


@contextmanager
def ours(*module: str) -> Iterator[Target]:
    """`billhook serve` with its defaults and one client, or a module that is the same but for one thing."""
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as folder:
        data_dir, named = Path(folder), module or ("billhook",)
        credentials = create_client(data_dir, "bench", module=named)
        with billhook(data_dir, settings={"PYTHONPATH": str(ROOT)}, module=named) as server:
            yield Target(server, (auth_request(credentials),), expected_status=201)


@contextmanager
def peer(started: AbstractContextManager[Server]) -> Iterator[Target]:
    with started as server:
        yield Target(server, (oidc_provider.token_request(),), expected_status=200)


def _toolkit(suffix: str) -> Callable[[], str]:
    return lambda: f"{environment.version_of('django-oauth-toolkit')}{suffix}"


ENTRANTS = (
    Entrant(OURS, "HMAC-SHA256 under a pepper", "ES256 JWT", ours),
    Entrant(
        "oidc-provider",
        "plain text",
        "ES256 JWT",
        lambda: peer(oidc_provider.oidc_provider()),
        oidc_provider.version,
    ),
    Entrant(
        "Authlib on Flask",
        "plain text",
        "ES256 JWT",
        lambda: peer(authlib_server()),
        lambda: f"{environment.version_of('Authlib')} on Flask",
    ),
    Entrant(
        "django-oauth-toolkit, secret not hashed",
        "plain text",
        "random, stored",
        lambda: peer(django_server(hashes_secret=False)),
        _toolkit(", secret not hashed"),
    ),
    Entrant(
        "billhook with argon2id",
        "argon2id, 64 MiB",
        "ES256 JWT",
        lambda: ours(SLOW_HASH, "argon2"),
        is_slow=True,
    ),
    Entrant(
        "billhook with PBKDF2",
        "PBKDF2, 600,000",
        "ES256 JWT",
        lambda: ours(SLOW_HASH, "pbkdf2"),
        is_slow=True,
    ),
    Entrant(
        "django-oauth-toolkit, its defaults",
        "PBKDF2, 1,000,000",
        "random, stored",
        lambda: peer(django_server(hashes_secret=True)),
        _toolkit(", its defaults"),
        is_slow=True,
    ),
)


def measure_all(targets: dict[str, Target], missing: dict[str, str], options: Options) -> dict[str, Measured]:
    """Each once per round, in turn. One that fails is left out from then on; the reason is noted in `missing`."""
    done = {name: Measured({}) for name in targets}
    for round_number in range(options.rounds):
        for entrant in ENTRANTS:
            if entrant.name in missing:
                continue
            tell(f"round {round_number + 1} of {options.rounds}: {entrant.name}")
            target, measured = targets[entrant.name], done[entrant.name]
            try:
                if not measured.rounds and not entrant.is_slow:
                    _warm_up(target)
                measured.rounds[round_number] = measure(target, seconds=options.seconds)
                measured.peak_bytes = target.server.peak_rss_bytes()
            except (Failed, RuntimeError, OSError) as problem:
                missing[entrant.name] = one_line(problem)
    return {name: measured for name, measured in done.items() if name not in missing}


@contextmanager
def _started(entrant: Entrant) -> Iterator[Target]:
    with entrant.start() as target:
        yield replace(target, connections=FEW_CONNECTIONS) if entrant.is_slow else target


def _warm_up(target: Target) -> None:
    """By the server's own time: V8 optimises after so much work, however long that takes on a busy machine."""
    until = target.server.cpu_seconds() + WARM_UP_SECONDS
    for _ in range(MOST_WARM_UPS):
        measure(target, seconds=WARM_UP_SECONDS + 0.5)
        if target.server.cpu_seconds() > until:
            return


def row(entrant: Entrant, measured: Measured, base: Measured) -> list[str]:
    mine = typical(list(measured.rounds.values()))
    return [
        entrant.label,
        entrant.secret,
        entrant.token,
        _duration(mine.cpu_microseconds),
        times(ratio(measured, base, lambda one: one.cpu_microseconds)),
        number(mine.per_second),
        times(ratio(base, measured, lambda one: one.per_second)),
        _duration(mine.p50 * 1e6),
        _duration(mine.p99 * 1e6),
        number(measured.peak_bytes / 2**20, "MiB"),
    ]


def ratio(these: Measured, those: Measured, figure: Callable[[Round], float]) -> float:
    """Within each round that has both, and of those the median."""
    both = sorted(these.rounds.keys() & those.rounds.keys())
    return typical_ratio(*([figure(one.rounds[number]) for number in both] for one in (these, those)))


def _duration(microseconds: float) -> str:
    return number(microseconds, "us") if microseconds < 1000 else number(microseconds / 1000, "ms")


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="scripts/bench tokens", description=__doc__)
    parser.add_argument("--rounds", type=int, help="how often each is measured (7; quick 2)")
    parser.add_argument("--seconds", type=float, help="length of one measurement, if its answers are fast (2; quick 1)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: under 3 minutes")
    given = parser.parse_args(arguments)
    rounds, seconds = (2, 1.0) if given.quick else (7, 2.0)
    return Options(given.rounds or rounds, given.seconds or seconds)


def run(options: Options) -> int:
    with ExitStack() as stack:
        tell("starting every service ...")
        targets, missing = start_all(stack, ENTRANTS, _started)
        done = measure_all(targets, missing, options) if OURS in targets else {}
    if OURS not in done:
        tell(f"{OURS} could not be measured: {missing[OURS]}")
        return 1
    base = done[OURS]
    print(f"Medians of {options.rounds} rounds; one process each on one core; 32 connections, slow hashes 8.\n")
    rows = [
        row(entrant, done[entrant.name], base) if entrant.name in done else missing_row(entrant.name, len(HEADER))
        for entrant in ENTRANTS
    ]
    print(as_markdown(HEADER, rows) + reasons(missing))
    return report.conclude([Report([], list(_goals(done)))], as_document=False)


def _goals(done: Mapping[str, Measured]) -> Iterator[Goal]:
    for name, measured in done.items():
        if name != OURS:
            least = ratio(measured, done[OURS], lambda one: one.cpu_microseconds)
            yield at_least(f"CPU per token, {name} over {OURS}", least, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    return command.carry_out(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
