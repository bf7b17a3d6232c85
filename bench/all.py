"""All benchmarks one after the other, with a bar while they run, and one table of their goals in the end."""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import command
from bench.report import tell
from bench.servers import stop

RESULTS = Path(__file__).parent / "results"
QUICK = RESULTS / "quick"
LOOK_SECONDS = 0.5
STOP_SECONDS = 30.0  # until what a benchmark has started is stopped
PATIENCE = 5  # times the expected time, and ten minutes: whatever takes longer hangs
GOAL = re.compile(r"^(?P<what>\S.*?)\s{2,}(?P<how>.*\S)\s+(?P<verdict>met|MISSED|alike|DIFFERENT)$")
GOOD = ("met", "alike")


@dataclass(frozen=True)
class Step:
    """A benchmark: how long it takes on a calm machine with two cores, and how to have a glance at it."""

    name: str
    seconds: float
    quick_seconds: float
    quick: tuple[str, ...]
    always: tuple[str, ...] = ()
    is_asked_for: bool = False  # runs only when named by an option

    def expected(self, is_quick: bool) -> float:
        return self.quick_seconds if is_quick else self.seconds

    def command(self, is_quick: bool) -> list[str]:
        return [sys.executable, "-m", f"bench.{self.name}", *self.always, *(self.quick if is_quick else ())]


DELIVERY = "--deliveries 2000 --rounds 1 --seconds 1 --rows 20000"
STEPS = (
    Step("auth", 440, 65, ("--rounds", "2", "--seconds", "1", "--clients", "5000")),
    Step("tokens", 300, 150, ("--quick",)),
    Step("timing", 100, 20, ("--each", "1000")),
    Step("delivery", 1500, 120, tuple(DELIVERY.split())),
    Step("senders", 1000, 120, ("--quick",)),
    Step("pages", 400, 40, ("--rows", "20000", "--times", "5")),
    Step("growth", 3600, 240, ("--quick",)),
    Step("profile", 120, 60, ("--seconds", "3", "--deliveries", "5000")),
    Step("soak", 1000, 360, ("--minutes", "1"), always=("--engine", command.BOTH), is_asked_for=True),
    Step("input", 600, 180, ("--quick",), is_asked_for=True),
)


@dataclass(frozen=True)
class Verdict:
    step: str
    what: str
    how: str
    met: bool


@dataclass(frozen=True)
class Run:
    seconds: float
    verdicts: list[Verdict]


class Watch(Protocol):
    """What people see meanwhile."""

    def begin(self, step: Step, number: int) -> None: ...

    def look(self, seconds: float) -> None: ...

    def end(self, step: Step, run: Run) -> None: ...


class Bar:
    def __init__(self, progress: Progress, steps: Sequence[Step], is_quick: bool) -> None:
        self._progress, self._is_quick, self._steps = progress, is_quick, steps
        self._before = 0.0  # of the expected time, for the steps that are done
        total = sum(step.expected(is_quick) for step in steps)
        self._task = progress.add_task("", total=total, expected=duration(total))

    def begin(self, step: Step, number: int) -> None:
        self._step = step
        self._progress.update(self._task, description=f"{number}/{len(self._steps)} {step.name}")

    def look(self, seconds: float) -> None:
        """A step that takes longer than expected keeps the bar where the next one begins."""
        self._progress.update(self._task, completed=self._before + min(seconds, self._step.expected(self._is_quick)))

    def end(self, step: Step, run: Run) -> None:
        self._before += step.expected(self._is_quick)
        self._progress.update(self._task, completed=self._before)
        self._progress.console.print(summary(step, run), highlight=False)


class Lines:
    """Where nobody looks at a terminal."""

    def __init__(self, steps: Sequence[Step], is_quick: bool) -> None:
        self._steps, self._is_quick = steps, is_quick

    def begin(self, step: Step, number: int) -> None:
        expected = duration(step.expected(self._is_quick))
        tell(f"{number}/{len(self._steps)} {step.name} ... (about {expected})")

    def look(self, seconds: float) -> None:
        pass

    def end(self, step: Step, run: Run) -> None:
        tell(summary(step, run))


@contextmanager
def watching(steps: Sequence[Step], is_quick: bool) -> Iterator[Watch]:
    if not sys.stderr.isatty():
        yield Lines(steps, is_quick)
        return
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(bar_width=None),
        TimeElapsedColumn(),
        TextColumn("of about {task.fields[expected]}"),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2) as progress:
        yield Bar(progress, steps, is_quick)


def summary(step: Step, run: Run) -> str:
    missed = sum(not verdict.met for verdict in run.verdicts)
    return f"{step.name}: {len(run.verdicts) - missed} met, {missed} missed, {duration(run.seconds)}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def carry_out(step: Step, folder: Path, watch: Watch, *, is_quick: bool) -> Run:
    """What it says goes to NAME.txt, what it tells meanwhile to NAME.log."""
    began = monotonic()
    said = folder / f"{step.name}.txt"
    with said.open("w") as output, (folder / f"{step.name}.log").open("w") as log:
        limit = PATIENCE * step.expected(is_quick) + 600
        status = _wait_for(step.command(is_quick), output, log, watch, limit=limit)
    return Run(monotonic() - began, verdicts(step.name, said.read_text(), status))


def _wait_for(program: list[str], output: TextIO, log: TextIO, watch: Watch, *, limit: float) -> int | None:
    """Its exit status; None when it was stopped because it took too long."""
    began = monotonic()
    child = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=output, stderr=log)
    try:
        while (seconds := monotonic() - began) < limit:
            watch.look(seconds)
            try:
                return child.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        return None
    finally:
        stop(child, seconds=STOP_SECONDS)


def verdicts(name: str, said: str, status: int | None) -> list[Verdict]:
    """The goals in its table. Where it has none, or fails although all are met, its exit status is one of its own."""
    found = [match for line in said.splitlines() if (match := GOAL.match(line))]
    goals = [Verdict(name, match["what"], match["how"], match["verdict"] in GOOD) for match in found]
    if status != 0 and all(goal.met for goal in goals):
        how = "stopped: it took too long" if status is None else f"exit status {status}"
        return [*goals, Verdict(name, "runs to its end with success", f"{how}, see {name}.log", met=False)]
    return goals or [Verdict(name, "runs to its end with success", "", met=True)]


def as_table(found: Sequence[Verdict]) -> str:
    step_width = max(len(verdict.step) for verdict in found)
    width = max(len(verdict.what) for verdict in found)
    how_width = max(len(verdict.how) for verdict in found)
    lines = [
        f"{v.step:<{step_width}}  {v.what:<{width}}  {v.how:>{how_width}}  {'met' if v.met else 'MISSED'}"
        for v in found
    ]
    missed = sum(not verdict.met for verdict in found)
    return "\n".join([*lines, "", f"{len(found) - missed} goals met, {missed} missed"])


def chosen(names: Sequence[str] | None, *, asked_for: set[str]) -> list[Step]:
    """In the order of the list."""
    if names is not None:
        return [step for step in STEPS if step.name in names]
    return [step for step in STEPS if not step.is_asked_for or step.name in asked_for]


def run(steps: Sequence[Step], *, is_quick: bool) -> int:
    folder = QUICK if is_quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Verdict] = []
    with watching(steps, is_quick) as watch:
        for number, step in enumerate(steps, start=1):
            watch.begin(step, number)
            done = carry_out(step, folder, watch, is_quick=is_quick)
            watch.end(step, done)
            found += done.verdicts
    print(as_table(found))
    return 0 if all(verdict.met for verdict in found) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench all", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: some minutes instead of two hours")
    names = [step.name for step in STEPS]
    parser.add_argument("--only", type=command.some_of(names), help=f"some of {','.join(names)}")
    for step in STEPS:
        if step.is_asked_for:
            parser.add_argument(f"--{step.name}", action="store_true", help=f"{step.name} as well")
    options = parser.parse_args(arguments)
    asked_for = {step.name for step in STEPS if step.is_asked_for and getattr(options, step.name)}
    steps = chosen(options.only, asked_for=asked_for)
    return command.carry_out(lambda: run(steps, is_quick=options.quick))


if __name__ == "__main__":
    sys.exit(main())
