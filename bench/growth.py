"""How cost grows: with clients, providers, what waits, what is finished, and workers. Figures as JSON, and plots."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench import axes, command, report
from bench.auth import typical_ratio
from bench.axes import Effort, Keep, Sample, Samples
from bench.drawing import draw
from bench.engines import Engine, engine
from bench.report import Figure, Goal, Report, at_most

HERE = Path(__file__).parent
RESULTS, PLOTS = HERE / "results", HERE / "plots"
QUICK = RESULTS / "quick"  # so that a glance does not replace what was measured with care

Measure = Callable[[Engine, Sequence[int], Effort, Keep], None]


@dataclass(frozen=True)
class Axis:
    measure: Measure
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    most: float  # CPU of both with the largest over that with `base`
    base: int


AXES = {
    "clients": Axis(axes.clients, (10, 100, 1000, 10_000, 100_000), (10, 1000), 1.10, base=10),
    # One provider may have ten under way; with fewer than fifty a worker claims less at a time than it could.
    "providers": Axis(axes.providers, (1, 10, 100, 1000, 10_000), (1, 100), 1.50, base=100),
    "backlog": Axis(axes.backlog, (1000, 10_000, 100_000, 1_000_000), (1000, 10_000), 1.20, base=1000),
    "history": Axis(axes.history, (0, 10_000, 100_000, 1_000_000, 10_000_000), (0, 50_000), 1.20, base=0),
    "workers": Axis(axes.workers, (1, 2, 3, 4), (1, 2), 1.50, base=1),
}
EFFORT = Effort(rounds=3, deliveries=5000, seconds=2.0)
QUICK_EFFORT = Effort(rounds=1, deliveries=1000, seconds=1.0)


@dataclass(frozen=True)
class Options:
    engine: str
    axis: tuple[str, ...]
    most: int | None
    rounds: int | None
    deliveries: int | None
    quick: bool
    draw: bool
    out: Path | None
    json: bool

    @property
    def effort(self) -> Effort:
        usual = QUICK_EFFORT if self.quick else EFFORT
        return Effort(self.rounds or usual.rounds, self.deliveries or usual.deliveries, usual.seconds)

    @property
    def document(self) -> Path:
        return (self.out or (QUICK if self.quick else RESULTS)) / "growth.json"

    @property
    def plots(self) -> Path:
        return self.out or (QUICK if self.quick else PLOTS)

    def sizes(self, axis: Axis) -> list[int]:
        chosen = axis.quick if self.quick else axis.sizes
        return [size for size in chosen if self.most is None or size <= self.most]


def key(axis: str, engine_name: str) -> str:
    return f"{axis}/{engine_name}"


def read(document: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(document.read_text()) if document.exists() else {}
    return known


def write(document: Path, known: dict[str, Any]) -> None:
    document.parent.mkdir(parents=True, exist_ok=True)
    beside = document.with_suffix(".new")
    beside.write_text("{\n" + ",\n".join(map(_spell, sorted(known.items()))) + "\n}\n")
    beside.replace(document)


def _spell(named: tuple[str, dict[str, Any]]) -> str:
    """A line for each size, so that people can read it and a new run is a short difference."""
    which, found = named
    sizes = sorted(found["samples"].items(), key=lambda each: int(each[0]))
    lines = ",\n".join(f"    {json.dumps(size)}: {json.dumps(rounds)}" for size, rounds in sizes)
    return f'  {json.dumps(which)}: {{"about": {json.dumps(found["about"])}, "samples": {{\n{lines}\n  }}}}'


def entry(samples: Samples, effort: Effort) -> dict[str, Any]:
    """What one axis gave on one engine, and of what sizes, when and beside how much else."""
    rounded = {
        str(size): [{name: round(value, 1) for name, value in asdict(sample).items()} for sample in each]
        for size, each in samples.items()
    }
    about = {
        "made": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[2], 1),  # of the last 15 minutes, ours included
        **asdict(effort),
    }
    return {"about": about, "samples": rounded}


def samples_of(found: dict[str, Any]) -> Samples:
    return {int(size): [Sample(**each) for each in rounds] for size, rounds in found["samples"].items()}


def measure(options: Options) -> Iterator[str]:
    """Writes down what it finds as it goes, in the place of what was there; yields the keys of what it has measured."""
    for engine_name in command.engines_of(options.engine):
        with engine(engine_name) as on:
            for name in options.axis:
                which, axis = key(name, engine_name), AXES[name]
                report.tell(f"{on.name}: {name} ...")
                axis.measure(on, options.sizes(axis), options.effort, partial(_keep, options, which))
                yield which


def _keep(options: Options, which: str, samples: Samples) -> None:
    write(options.document, read(options.document) | {which: entry(samples, options.effort)})


def judge(which: str, samples: Samples) -> Report:
    name = which.partition("/")[0]
    axis, least, largest = AXES[name], min(samples), max(samples)
    base = axis.base if axis.base in samples else least
    what = f"{which.partition('/')[2]}: CPU per {'token' if name == 'clients' else 'delivery'}"
    figures = [Figure(f"{what}, {name} {size:,}", median(_cost(samples[size])), "us") for size in sorted(samples)]
    growth = typical_ratio(_cost(samples[largest]), _cost(samples[base]))
    goals: list[Goal] = [at_most(f"{what}, {name} {largest:,} over {base:,}", growth, axis.most)]
    if name == "workers":
        repeats = sum(sample.repeats for each in samples.values() for sample in each)
        goals.append(
            at_most(f"{which.partition('/')[2]}: deliveries that came twice, up to {largest} workers", repeats, 0)
        )
    return Report(figures, goals)


def _cost(rounds: list[Sample]) -> list[float]:
    return [sample.cpu_us + sample.database_us for sample in rounds]


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="scripts/bench growth", description=__doc__)
    command.offer_engines(parser)
    parser.add_argument(
        "--axis", type=command.some_of(AXES), default=tuple(AXES), help=f"some of {','.join(AXES)} (all)"
    )
    parser.add_argument(
        "--most", type=int, help="leave out larger sizes: 10,000,000 rows take 9 to 12 GB of disk a database"
    )
    parser.add_argument("--rounds", type=int, help=f"how often each size has its turn ({EFFORT.rounds})")
    parser.add_argument("--deliveries", type=int, help=f"of one drain ({EFFORT.deliveries})")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, one round, kept apart in bench/results/quick"
    )
    parser.add_argument("--draw", action="store_true", help="measure nothing: draw and judge what is known")
    parser.add_argument("--out", type=Path, help="folder of growth.json and the plots (bench/results and bench/plots)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    return Options(**vars(parser.parse_args(arguments)))


def run(options: Options) -> int:
    done = [] if options.draw else list(measure(options))
    known = {which: samples_of(found) for which, found in read(options.document).items()}
    draw(known, options.plots)
    judged = [judge(which, each) for which, each in known.items() if options.draw or which in done]
    return report.conclude(judged, as_document=options.json)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    return command.carry_out(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
