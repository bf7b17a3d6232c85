"""Figures and goals as a table for people or one JSON document for machines."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class Goal:
    name: str
    value: float
    bound: str  # as people say it
    met: bool


@dataclass(frozen=True)
class Report:
    figures: list[Figure]
    goals: list[Goal]

    @property
    def met(self) -> bool:
        return all(goal.met for goal in self.goals)


def at_least(name: str, value: float, bound: float) -> Goal:
    return Goal(name, value, f">= {bound:g}", value >= bound)


def at_most(name: str, value: float, bound: float) -> Goal:
    return Goal(name, value, f"<= {bound:g}", value <= bound)


def conclude(parts: Sequence[Report], *, as_document: bool) -> int:
    """Print all parts as one; the exit status says whether every goal is met."""
    whole = Report([f for part in parts for f in part.figures], [g for part in parts for g in part.goals])
    print(as_json(whole) if as_document else as_table(whole))
    return 0 if whole.met else 1


def tell(what: str) -> None:
    """On the way, beside what is reported."""
    print(what, file=sys.stderr, flush=True)


def as_json(report: Report) -> str:
    document: dict[str, Any] = {"met": report.met, **asdict(report)}
    return json.dumps(document, indent=2)


def as_table(report: Report) -> str:
    names = [figure.name for figure in report.figures] + [goal.name for goal in report.goals]
    width = max(map(len, names))
    figures = [f"{f.name:<{width}}  {f.value:>12,.{_decimals(f.value)}f} {f.unit}" for f in report.figures]
    goals = [f"{g.name:<{width}}  {g.value:>12.3f} {g.bound:<9} {'met' if g.met else 'MISSED'}" for g in report.goals]
    return "\n".join([*figures, "", *goals])


def _decimals(value: float) -> int:
    return 0 if abs(value) >= 1000 else 2
