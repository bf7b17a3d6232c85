"""A steady load for as long as one likes while things break at random; then every accepted id is looked up.

The plan of faults follows from --seed, so that a run can be repeated; what they hit follows from the machine.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep

from bench import command, faults, report
from bench.backlog import make_client, make_doors
from bench.engines import Engine, Site, engine
from bench.fleet import API, SERVER, WORKER, Disk, Fleet, Slot, make_slots, small_disk, wrong_clock
from bench.inquest import STEPS_SECONDS, Findings, account, late_answers, settle
from bench.moody import Moody, moody
from bench.report import Report
from bench.servers import Failed, billhook_environment
from bench.steady import Load, Plan

RECEIVERS = 4
OFFSETS = ("+3600s", "-3600s")  # of the clock of one worker, by the seed
PROGRESS_SECONDS = 5.0
FIRST_SECONDS = 300.0  # until the first is accepted
BYTES_PER_SEND = 10_000  # what a notification, its delivery, its attempts and the log of changes take at most
SPARE_MEGABYTES = 64


@dataclass(frozen=True)
class Options:
    engine: str
    minutes: float
    seed: int
    api: int
    workers: int
    rate: float
    json: bool

    @property
    def seconds(self) -> float:
        return self.minutes * 60


@dataclass(frozen=True)
class Scene:
    site: Site
    fleet: Fleet
    receivers: Moody
    load: Load
    disk: Disk | None
    clock: str  # of the worker whose clock is off; empty: there is none


def soak(on: Engine, options: Options) -> Report:
    with _scene(on, options) as scene:
        hands = faults.Hands(scene.site, scene.fleet, scene.receivers, scene.disk)
        planned = faults.plan(options.seed, options.seconds, _numbers(scene))
        tell = Progress(on.name, options.seconds, scene, hands)
        with scene.fleet.running():
            with scene.load.running():
                _wait_for_the_first(scene)
                tell.begin()
                hands.carry_out(planned, tell)
            settled = settle(scene.site, last_fault=hands.last, load_ended=monotonic(), beside=tell)
            return account(_findings(on, scene, hands, settled))


def _numbers(scene: Scene) -> dict[str, int]:
    """How many there are of what faults happen to."""
    numbers = {role: len(scene.fleet.of(role)) for role in (API, WORKER, SERVER)}
    is_postgres = scene.site.engine.postgres is not None
    return numbers | {
        faults.POSTGRES: int(is_postgres),
        faults.RECEIVER: RECEIVERS,
        faults.DISK: int(scene.disk is not None),
    }


@contextmanager
def _scene(on: Engine, options: Options) -> Iterator[Scene]:
    with ExitStack() as stack:
        site = stack.enter_context(on.site())
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="billhook-soak-")))
        disk = None
        if on.postgres is None:
            size = SPARE_MEGABYTES + int(options.rate * options.seconds * BYTES_PER_SEND / 1e6)
            disk = stack.enter_context(small_disk(site.data_dir, megabytes=size))
        receivers = stack.enter_context(moody(RECEIVERS))
        groups = [make_doors(site, receivers.url(number), 1)[0].group_id for number in range(RECEIVERS)]
        slots, clock = _slots(site, logs, options)
        ports = tuple(slot.port for slot in slots if slot.port)
        plan = Plan(ports, tuple(groups), make_client(site), options.rate)
        yield Scene(site, Fleet(slots, receivers.know), receivers, Load(plan), disk, clock)


def _slots(site: Site, logs: Path, options: Options) -> tuple[list[Slot], str]:
    ours = {
        "BILLHOOK_BASE_URL": "https://soak.example.com",
        "BILLHOOK_RETRY_SCHEDULE": ",".join(f"{seconds}s" for seconds in STEPS_SECONDS),
        "BILLHOOK_LOG_FORMAT": "json",
    }
    environment = {**billhook_environment(site.data_dir), **site.environment, **ours}
    if site.engine.postgres is None:
        return make_slots({SERVER: 1}, logs, environment), ""
    slots = make_slots({API: options.api, WORKER: options.workers}, logs, environment)
    offset = OFFSETS[options.seed % 2]
    wrong = wrong_clock(environment, offset)
    if wrong is None:
        return slots, ""
    slots[-1].environment = wrong
    return slots, offset


def _wait_for_the_first(scene: Scene) -> None:
    deadline = monotonic() + FIRST_SECONDS
    while not scene.load.told.accepted or not scene.receivers.distinct():
        scene.load.must_go_on()
        if monotonic() > deadline:
            raise Failed("nothing was accepted and delivered at all:\n" + _last_words(scene.fleet))
        sleep(0.1)


def _last_words(fleet: Fleet) -> str:
    return "\n".join(f"{slot.name}: {slot.log.read_text(errors='replace')[-1000:]}" for slot in fleet.slots)


def _findings(on: Engine, scene: Scene, hands: faults.Hands, settled: float) -> Findings:
    left_out = []
    if on.postgres is None and scene.disk is None:
        left_out.append("the disk was not filled: it takes root to mount a small one")
    if on.postgres is not None and not scene.clock:
        left_out.append("no clock was wrong: libfaketime is not installed")
    return Findings(
        name=on.name,
        told=scene.load.told,
        arrivals=scene.receivers.arrivals(),
        hands=hands,
        settled=settled,
        clock=scene.clock,
        tracebacks=scene.fleet.tracebacks(),
        revived=scene.fleet.revived,
        left_out=left_out,
        late=late_answers(scene.site),
    )


class Progress:
    """A line for people every few seconds, and what a supervisor does meanwhile."""

    def __init__(self, name: str, seconds: float, scene: Scene, hands: faults.Hands) -> None:
        self._name, self._seconds, self._scene, self._hands = name, seconds, scene, hands
        self._began = self._said = 0.0

    def begin(self) -> None:
        self._began = monotonic()

    def __call__(self) -> None:
        self._scene.fleet.revive()
        self._scene.load.must_go_on()
        if monotonic() < self._said + PROGRESS_SECONDS:
            return
        self._said = monotonic()
        told, hands = self._scene.load.told, self._hands
        elapsed, whole = (timedelta(seconds=round(each)) for each in (self._said - self._began, self._seconds))
        arrived = self._scene.receivers.distinct()
        report.tell(
            f"{self._name} {elapsed} of {whole}: accepted {len(told.accepted):,}, arrived {arrived:,}, "
            f"503s {told.answers['503']:,}, faults {hands.done.total()} ({hands.latest})"
        )


def _at_least_one(kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError("must be more than 0")
        return value

    return parse


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="scripts/bench soak", description=__doc__)
    command.offer_engines(parser, default="postgres")
    parser.add_argument("--minutes", type=_at_least_one(float), default=5.0, help="of load and faults (5)")
    parser.add_argument("--seed", type=int, default=1, help="of the plan of faults (1)")
    parser.add_argument("--api", type=_at_least_one(int), default=2, help="API processes, on PostgreSQL (2)")
    parser.add_argument("--workers", type=_at_least_one(int), default=3, help="workers, on PostgreSQL (3)")
    parser.add_argument("--rate", type=_at_least_one(float), default=40.0, help="sends a second (40)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    return Options(**vars(parser.parse_args(arguments)))


def run(options: Options) -> int:
    done: list[Report] = []
    for name in command.engines_of(options.engine):
        with engine(name) as on:
            done.append(soak(on, options))
    return report.conclude(done, as_document=options.json)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    return command.carry_out(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
