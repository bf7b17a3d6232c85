"""Can somebody outside tell from the time of a refusal why it was refused? A statistical test of `POST /auth`."""

import argparse
import gc
import random
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, perf_counter_ns

from bench import command
from bench.affinity import GENERATOR_CORE, pinned_to
from bench.credentials import Credentials, auth_request
from bench.distributions import Comparison, compare
from bench.response import Response, read_response
from bench.servers import Failed, billhook, billhook_command, create_client

REFUSED = 401
WARM_UP = 2_000  # requests
MAX_SECONDS = 90.0  # for the requests; with start and statistics the whole stays under two minutes
ELSEWHERE = "192.0.2.0/24"  # the only network from which one of the clients may come; we never do
NEAR_SHARE = 0.02
NEAR_NANOSECONDS = 3_000.0  # a network's jitter is a hundred times more
NEAR_AUC = 0.03  # how far from a coin's 0.5 a guess by time alone may be

Samples = dict[str, list[float]]  # nanoseconds by the reason of the refusal


def prepare(data_dir: Path, other_data_dir: Path) -> dict[str, Credentials]:
    """For every reason to refuse, credentials that meet it.

    The unknown client and the wrong secret come from another installation: well formed, yet never issued here.
    """
    foreign = create_client(other_data_dir, "foreign")
    known, revoked, expired = (create_client(data_dir, name) for name in ("known", "revoked", "expired"))
    billhook_command(data_dir, "client", "revoke", revoked.client_id)
    billhook_command(data_dir, "client", "rotate", expired.client_id, "--grace", "now")
    return {
        "unknown client": foreign,
        "wrong secret": Credentials(known.client_id, foreign.client_secret),
        "revoked client": revoked,
        "expired secret": expired,
        "address not allowed": create_client(data_dir, "elsewhere", "--network", ELSEWHERE),
    }


def collect(port: int, credentials: Mapping[str, Credentials], *, each: int) -> Samples:
    """Time `each` refusals of every kind, in random order over one connection, within MAX_SECONDS."""
    addresses = _addresses()
    order = [name for name in credentials for _ in range(each)]
    random.shuffle(order)
    samples: Samples = {name: [] for name in credentials}
    bodies: set[bytes] = set()
    with socket.create_connection(("127.0.0.1", port)) as connection, pinned_to(GENERATOR_CORE):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask = _asker(connection, credentials, addresses)
        for name in order[:WARM_UP]:
            ask(name)
        for name in _until(monotonic() + MAX_SECONDS, order):
            nanoseconds, response = ask(name)
            samples[name].append(nanoseconds)
            bodies.add(response.body)
    if len(bodies) != 1:
        raise Failed(f"the refusals do not look alike: {bodies}")
    return samples


def _asker(
    connection: socket.socket, credentials: Mapping[str, Credentials], addresses: Iterator[str]
) -> Callable[[str], tuple[float, Response]]:
    def ask(name: str) -> tuple[float, Response]:
        request = auth_request(credentials[name], forwarded_for=next(addresses)).encode()
        began = perf_counter_ns()
        connection.sendall(request)
        response = _receive(connection)
        nanoseconds = perf_counter_ns() - began
        if response.status != REFUSED:
            raise Failed(f"{name}: answered {response.status} and not {REFUSED}: {response.body!r}")
        return float(nanoseconds), response

    return ask


def _receive(connection: socket.socket) -> Response:
    buffer = b""
    while (response := read_response(buffer)) is None:
        data = connection.recv(65_536)
        if not data:
            raise Failed("the server closed the connection")
        buffer += data
    return response


def _addresses() -> Iterator[str]:
    """Addresses of 10.0.0.0/8, each once: failures are limited by address, and a 429 is not what we time."""
    for number in random.sample(range(2**24), k=2**20):
        yield f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _until(deadline: float, order: Sequence[str]) -> Iterator[str]:
    for name in order:
        if monotonic() > deadline:
            return
        yield name


def is_near(comparison: Comparison) -> bool:
    """Too close to tell apart by any of the three measures."""
    by_share = abs(comparison.difference) < NEAR_SHARE * comparison.others_median
    by_time = abs(comparison.difference) < NEAR_NANOSECONDS
    by_rank = abs(comparison.auc - 0.5) <= NEAR_AUC
    return by_share or by_time or by_rank


def as_table(comparisons: Mapping[str, Comparison]) -> str:
    head = f"{'refused because':<20} {'count':>7} {'median us':>10} {'- others us':>12} {'95 % of it':>18} {'AUC':>6}"
    return "\n".join([head, *(_line(name, comparison) for name, comparison in comparisons.items())])


def _line(name: str, comparison: Comparison) -> str:
    interval = f"{comparison.low / 1e3:+.2f} … {comparison.high / 1e3:+.2f}"
    figures = (
        f"{comparison.median / 1e3:>10.2f} {comparison.difference / 1e3:>+12.2f} {interval:>18} {comparison.auc:>6.3f}"
    )
    return f"{name:<20} {comparison.count:>7} {figures}  {'alike' if is_near(comparison) else 'DIFFERENT'}"


def time_refusals(each: int) -> Samples:
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as here, tempfile.TemporaryDirectory() as other:
        data_dir = Path(here)
        credentials = prepare(data_dir, Path(other))
        # Trusting ourselves as a proxy lets every request claim an address of its own.
        with billhook(data_dir, settings={"BILLHOOK_TRUSTED_PROXIES": "127.0.0.0/8"}) as server:
            return collect(server.port, credentials, each=each)


def run(each: int) -> int:
    gc.disable()  # a collection here would be put down to whichever refusal was under way
    samples = time_refusals(each)
    comparisons = {name: compare(name, samples) for name in samples}
    print(as_table(comparisons))
    return 0 if all(map(is_near, comparisons.values())) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench timing", description=__doc__)
    parser.add_argument("--each", type=int, default=10_000, help="refusals of every kind (10000)")
    options = parser.parse_args(arguments)
    return command.carry_out(lambda: run(options.each))


if __name__ == "__main__":
    sys.exit(main())
