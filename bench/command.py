"""A benchmark as a command: how it ends, and the options that several have."""

import argparse
import signal
import sys
from collections.abc import Callable, Collection

from bench.servers import Failed

TOLD_TO_STOP = 128 + signal.SIGTERM
ENGINES = ("sqlite", "postgres")
BOTH = "both"


def carry_out(work: Callable[[], int]) -> int:
    """Its exit status. Told to stop it unwinds, so that every process it has started is stopped."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TOLD_TO_STOP))
    try:
        return work()
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)


def some_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """The `type` of an option that takes names with commas between."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(text.split(","))
        if unknown := sorted(set(chosen) - set(known)):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
        return chosen

    return parse


def offer_engines(parser: argparse.ArgumentParser, *, default: str = BOTH) -> None:
    parser.add_argument("--engine", choices=(*ENGINES, BOTH), default=default, help=f"which database ({default})")


def engines_of(chosen: str) -> tuple[str, ...]:
    return ENGINES if chosen == BOTH else (chosen,)
