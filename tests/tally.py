"""What was tried with bad input, counted: a plugin of pytest that prints the sums when the run ends.

`--input-times 50` tries that many times more, each time something else; so does `scripts/bench input`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase

OPTION = "--input-times"
FAILURE_OF_OURS = 500


@dataclass
class Part:
    """One kind of bad input: how often each place was tried, and what must not have happened."""

    unit: str
    place: str
    tried: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    failures: int = 0  # 5xx, or an exception that nobody expects
    leaks: int = 0  # something seen, reached or accepted that must not be

    def line(self, name: str) -> str:
        sums = f"{name}: {self.tried.total():,} {self.unit} over {len(self.tried):,} {self.place}"
        answers = ", ".join(f"{what} {count:,}" for what, count in sorted(self.answers.items()))
        told = f" ({answers})" if answers else ""
        return f"{sums}{told}, {self.failures:,} failed (5xx), {self.leaks:,} leaks"


class Tally:
    """Of this process; with pytest-xdist those of all processes are put together."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self.times = 1

    def part(self, name: str, *, unit: str = "requests", place: str = "routes") -> Part:
        return self.parts.setdefault(name, Part(unit, place))

    def answered(self, name: str, route: str, status: int) -> None:
        """Count an answer over HTTP before anything is asserted about it, so that a failure is counted too."""
        part = self.part(name)
        part.tried[route] += 1
        part.answers[f"{status // 100}xx"] += 1
        part.failures += status >= FAILURE_OF_OURS

    def judged(self, name: str, place: str, *, what: str, unit: str, places: str, is_leak: bool = False) -> None:
        """Count a judgement that was made without HTTP."""
        part = self.part(name, unit=unit, place=places)
        part.tried[place] += 1
        part.answers[what] += 1
        part.leaks += is_leak

    def leaked(self, name: str) -> None:
        self.part(name).leaks += 1

    def settings(self, examples: int, **more: Any) -> hypothesis.settings:
        """The same examples in every run, unless somebody asks for more of them."""
        return hypothesis.settings(
            max_examples=examples * self.times,
            derandomize=self.times == 1,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate]
            if self.times == 1
            else [Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            **more,
        )

    def lines(self) -> Iterator[str]:
        for name in sorted(self.parts):
            yield self.parts[name].line(name)
        everything = self.parts.values()
        tried, failed, leaks = (sum(each) for each in zip(*map(_sums, everything), strict=True))
        yield f"bad input: {tried:,} tried in all, {failed:,} failed (5xx), {leaks:,} leaks"

    def dump(self) -> list[dict[str, Any]]:
        """As xdist can carry it from one process to another."""
        return [
            {**vars(part), "name": name, "tried": dict(part.tried), "answers": dict(part.answers)}
            for name, part in self.parts.items()
        ]

    def merge(self, dumped: list[dict[str, Any]]) -> None:
        for each in dumped:
            part = self.part(each["name"], unit=each["unit"], place=each["place"])
            part.tried.update(each["tried"])
            part.answers.update(each["answers"])
            part.failures += each["failures"]
            part.leaks += each["leaks"]


def _sums(part: Part) -> tuple[int, int, int]:
    return part.tried.total(), part.failures, part.leaks


tally = Tally()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, type=int, default=1, help="try so many times more bad input, at random")


def pytest_configure(config: pytest.Config) -> None:
    tally.times = config.getoption(OPTION)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # we are one of several processes
        session.config.workeroutput["bad_input"] = tally.dump()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """One of them has ended; what it counted is lost when it crashed, and the run has failed then."""
    tally.merge(getattr(node, "workeroutput", {}).get("bad_input", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if tally.parts:
        terminalreporter.section("bad input")
        for line in tally.lines():
            terminalreporter.line(line)
