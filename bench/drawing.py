"""Plots of what `growth` measured: one small picture for each axis, what it costs and what that gives."""

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullLocator
from PIL import Image

from bench.axes import Sample, Samples

INCHES, DOTS = (7.2, 3.4), 100
COLOURS = 64
# Okabe and Ito's, which people who see colours differently can tell apart; marks differ as well.
SQLITE, POSTGRES, SERVER = "#0072B2", "#D55E00", "#009E73"
INK, FAINT = "#333333", "#dddddd"

Value = Callable[[Sample], float]


@dataclass(frozen=True)
class Line:
    engine: str
    label: str
    value: Value
    colour: str
    mark: str
    dashes: Literal["-", "--"] = "-"


@dataclass(frozen=True)
class Panel:
    title: str  # with the unit
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Picture:
    along: str  # what the horizontal axis is
    panels: tuple[Panel, Panel]
    is_logarithmic: bool = True


def _cpu(sample: Sample) -> float:
    return sample.cpu_us


def _database(sample: Sample) -> float:
    return sample.database_us


def _rate(sample: Sample) -> float:
    return sample.per_second


def _memory(sample: Sample) -> float:
    return sample.mebibytes


def _both(value: Value) -> tuple[Line, ...]:
    return (
        Line("sqlite", "SQLite", value, SQLITE, "o"),
        Line("postgres", "PostgreSQL", value, POSTGRES, "s"),
    )


WORKER = (
    Line("sqlite", "worker with SQLite in it", _cpu, SQLITE, "o"),
    Line("postgres", "worker over PostgreSQL", _cpu, POSTGRES, "s"),
    Line("postgres", "PostgreSQL itself", _database, SERVER, "^", "--"),
)
DELIVERY = (Panel("CPU per delivery, µs", WORKER), Panel("Drained by one worker, deliveries/s", _both(_rate)))
PICTURES = {
    "clients": Picture(
        "Clients registered", (Panel("CPU per token, µs", _both(_cpu)), Panel("Resident memory, MiB", _both(_memory)))
    ),
    "providers": Picture("Providers that something waits for", DELIVERY),
    "backlog": Picture("Deliveries that are due", DELIVERY),
    "history": Picture("Finished deliveries in the database", DELIVERY),
    "workers": Picture(
        "Workers",
        (
            Panel(
                "CPU per delivery, µs",
                (
                    Line("postgres", "all workers together", _cpu, POSTGRES, "s"),
                    Line("postgres", "PostgreSQL itself", _database, SERVER, "^", "--"),
                ),
            ),
            Panel("Drained on these cores, deliveries/s", (Line("postgres", "together", _rate, POSTGRES, "s"),)),
        ),
        is_logarithmic=False,
    ),
}


def draw(known: dict[str, Samples], folder: Path) -> list[Path]:
    """A picture for every axis of which anything is known. Keys are `axis/engine`."""
    folder.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams.update({"font.size": 8.5, "axes.edgecolor": INK, "text.color": INK, "axes.labelcolor": INK})
    return [
        _draw(picture, {which.partition("/")[2]: each for which, each in mine.items()}, folder / f"{axis}.png")
        for axis, picture in PICTURES.items()
        if (mine := {which: each for which, each in known.items() if which.startswith(f"{axis}/")})
    ]


def _draw(picture: Picture, of_engine: dict[str, Samples], path: Path) -> Path:
    figure = Figure(figsize=INCHES, dpi=DOTS, layout="constrained")
    for place, panel in zip(figure.subplots(1, 2), picture.panels, strict=True):
        for line in panel.lines:
            if line.engine in of_engine:
                _plot(place, line, of_engine[line.engine])
        _dress(place, panel, picture, sorted({size for samples in of_engine.values() for size in samples}))
    # No date and no version inside: the same figures give the same file. A palette makes it a third of the size.
    whole = BytesIO()
    figure.savefig(whole, metadata={"Software": None})
    Image.open(whole).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    return path


def _plot(place: Axes, line: Line, samples: Samples) -> None:
    """The median of the rounds; the whisker goes from the least to the most."""
    sizes = sorted(samples)
    values = [[line.value(sample) for sample in samples[size]] for size in sizes]
    middle = [median(each) for each in values]
    whiskers = [
        [mid - min(each) for mid, each in zip(middle, values, strict=True)],
        [max(each) - mid for mid, each in zip(middle, values, strict=True)],
    ]
    place.errorbar(
        sizes,
        middle,
        yerr=whiskers,
        label=line.label,
        color=line.colour,
        marker=line.mark,
        linestyle=line.dashes,
        markersize=4.5,
        linewidth=1.4,
        elinewidth=0.8,
    )


def _dress(place: Axes, panel: Panel, picture: Picture, sizes: list[int]) -> None:
    place.set_title(panel.title, fontsize=9.5, loc="left")
    place.set_xlabel(picture.along)
    if picture.is_logarithmic:
        # Zero stands half a decade before the least that is not.
        place.set_xscale("symlog", linthresh=min(filter(None, sizes), default=1), linscale=0.5)
        place.xaxis.set_minor_locator(NullLocator())
    place.set_xticks(sizes, [EngFormatter(sep="")(size) for size in sizes])
    place.set_ylim(0, place.get_ylim()[1] * 1.3)  # room for the legend
    place.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    place.grid(axis="y", color=FAINT, linewidth=0.6)
    place.set_axisbelow(True)
    place.spines[["top", "right"]].set_visible(False)
    if len(panel.lines) > 1:
        place.legend(frameon=False, fontsize=8, loc="upper left")
