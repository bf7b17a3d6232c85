"""Where the time of one attempt went: its phases, one after the other. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class Timings(Protocol):
    """Milliseconds; None for a phase that was not needed, or that did not end."""

    @property
    def dns(self) -> float | None: ...
    @property
    def connect(self) -> float | None: ...
    @property
    def tls(self) -> float | None: ...
    @property
    def first_byte(self) -> float | None: ...
    @property
    def total(self) -> float: ...


@dataclass(frozen=True)
class Phase:
    name: str
    took: float  # milliseconds
    begins: float  # percent of the whole
    share: float  # percent of the whole


def phases(timings: Timings) -> list[Phase]:
    at, whole = 0.0, max(timings.total, 0.001)
    found = []
    for name, took in _durations(timings):
        found.append(Phase(name, took, _percent(at, whole), _percent(took, whole)))
        at += took
    return found


def _durations(timings: Timings) -> Iterator[tuple[str, float]]:
    opening = {"DNS": timings.dns, "Connect": timings.connect, "TLS": timings.tls}
    needed = {name: took for name, took in opening.items() if took is not None}
    yield from needed.items()
    passed = sum(needed.values())
    if timings.first_byte is None:
        yield "Until it failed", max(timings.total - passed, 0.0)
        return
    yield "First byte", max(timings.first_byte - passed, 0.0)
    yield "Rest of the answer", max(timings.total - timings.first_byte, 0.0)


def _percent(part: float, whole: float) -> float:
    return round(min(100.0, 100 * part / whole), 2)
