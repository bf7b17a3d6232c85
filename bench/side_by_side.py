"""Several that do the same job, as a table that can be pasted; what is missing here gets a row that says so."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, TypeVar

from bench.servers import Failed

NOTHING = "-"
LONGEST_REASON = 160


class Named(Protocol):
    @property
    def name(self) -> str: ...


Entrant = TypeVar("Entrant", bound=Named)
Started = TypeVar("Started")


def start_all(
    stack: ExitStack, entrants: Sequence[Entrant], start: Callable[[Entrant], AbstractContextManager[Started]]
) -> tuple[dict[str, Started], dict[str, str]]:
    """Those that run, and why the others do not, each by name."""
    running: dict[str, Started] = {}
    missing: dict[str, str] = {}
    for entrant in entrants:
        try:
            running[entrant.name] = stack.enter_context(start(entrant))
        except (Failed, OSError, subprocess.SubprocessError) as problem:
            missing[entrant.name] = one_line(problem)
    return running, missing


def one_line(problem: BaseException) -> str:
    """The last thing a program said before it gave up is mostly the reason."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
    said = lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"
    return said[:LONGEST_REASON]


def as_markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Padded, so that it reads as well in a terminal. The first column is text, the others are what was measured."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_line(header, widths), f"| {' | '.join(rule)} |", *(_line(row, widths) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = [
        cell.ljust(width) if number == 0 else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join([first, *others])} |"


def missing_row(name: str, columns: int) -> list[str]:
    return [f"{name}: not measured", *[NOTHING] * (columns - 1)]


def reasons(missing: Mapping[str, str]) -> str:
    """To stand below the table."""
    return "".join(f"\n{name} was not measured: {reason}" for name, reason in missing.items())


def number(value: float, unit: str = "") -> str:
    """Three figures that say something, and no more."""
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f}{unit and ' '}{unit}"


def times(ratio: float) -> str:
    return f"{number(ratio)} x"
