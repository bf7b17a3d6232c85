"""What delivering costs: drain and accept rates, latency, and what a hung provider or a million rows change."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench import command, report
from bench.answering import accepting, beside_hung, travelling
from bench.draining import draining, growing
from bench.engines import Engine, engine
from bench.report import Report

PARTS = ("drain", "accept", "latency", "hung", "million")
DRAIN_ROUNDS, ACCEPT_ROUNDS = 3, 3
NOISY_ROUNDS = 5  # where the difference of two like things is asked for


@dataclass(frozen=True)
class Options:
    engine: str
    part: tuple[str, ...]
    deliveries: int
    rows: int
    rounds: int | None
    seconds: float
    json: bool


def measure(on: Engine, options: Options) -> Iterator[Report]:
    rounds, few = options.rounds, min(options.deliveries, 5000)
    parts: dict[str, Callable[[], Report]] = {
        "drain": lambda: draining(on, deliveries=options.deliveries, rounds=rounds or DRAIN_ROUNDS),
        "accept": lambda: accepting(on, seconds=options.seconds, rounds=rounds or ACCEPT_ROUNDS),
        "latency": lambda: travelling(on),
        "hung": lambda: beside_hung(on, rounds=rounds or NOISY_ROUNDS),
        "million": lambda: growing(on, deliveries=few, rows=options.rows, rounds=rounds or NOISY_ROUNDS),
    }
    for part in options.part:
        report.tell(f"{on.name}: {part} ...")
        yield parts[part]()


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="scripts/bench delivery", description=__doc__)
    command.offer_engines(parser)
    parser.add_argument("--part", type=command.some_of(PARTS), default=PARTS, help=f"some of {','.join(PARTS)} (all)")
    parser.add_argument("--deliveries", type=int, default=20_000, help="of a backlog; million: at most 5000 (20000)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the large database (1000000)")
    parser.add_argument("--rounds", type=int, help="how often each is measured (3; hung and million 5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one round of accept (5)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    return Options(**vars(parser.parse_args(arguments)))


def run(options: Options) -> int:
    done: list[Report] = []
    for name in command.engines_of(options.engine):
        with engine(name) as on:
            done += measure(on, options)
    return report.conclude(done, as_document=options.json)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    return command.carry_out(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
