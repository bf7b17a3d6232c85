"""What a delivery costs here and elsewhere, and what is lost of a batch when the sender is killed in the middle."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from bench import command, report
from bench.auth import typical_ratio
from bench.contestants import Apprise, Batch, Billhook, Celery, Contestant
from bench.engines import engine
from bench.receiver import Receiver, Tally, receiver
from bench.report import Report, at_most, tell
from bench.servers import Failed
from bench.side_by_side import as_markdown, missing_row, number, one_line, reasons, times

START_SECONDS = 90.0  # until the first arrival, on a busy machine
SLOWEST = 20  # deliveries a second; a sender that is slower has stopped
QUIET_SECONDS = 5.0  # without an arrival, and nothing waiting: it is over
SETTLE_SECONDS = 240.0  # three leases of ours
LOOK_SECONDS = 1.0
EACH_KILL = 100  # deliveries of the batch: each may put a dozen out of reach, and the next must still be reached
SPEED = ("sender", "deliveries/s", "ours / its", "CPU each", "of that its store", "its / ours", "memory", "processes")
FATE = ("sender", "sent", "killed", "lost", "held back an hour", "came twice", "all settled after")


@dataclass(frozen=True)
class Options:
    engines: tuple[str, ...]
    count: int
    rounds: int
    kills: int


@dataclass(frozen=True)
class Speed:
    per_second: float  # from the first to the last arrival
    sender_microseconds: float  # CPU of each delivery
    store_microseconds: float  # the same of its database or broker
    memory: int  # of both
    processes: int  # of the sender

    @property
    def microseconds(self) -> float:
        return self.sender_microseconds + self.store_microseconds


@dataclass(frozen=True)
class Fate:
    sent: int
    kills: int
    lost: int
    held_back: int
    twice: int
    seconds: float  # from the last start to the last arrival


@dataclass
class Results:
    speeds: dict[str, list[Speed]] = field(default_factory=dict)
    fates: dict[str, Fate] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def kill_points(count: int, kills: int) -> list[int]:
    """After how many arrivals: in the middle first, then spread over the second half."""
    return [count // 2 + number * count // (2 * kills) for number in range(kills)]


def fate_of(tally: Tally, *, count: int, kills: int, held_back: int, seconds: float) -> Fate:
    """What did not come is lost, but for what its store still holds."""
    absent = count - tally.distinct
    held = min(held_back, absent)
    return Fate(count, kills, absent - held, held, tally.count - tally.distinct, seconds)


def send_all(contestant: Contestant, to: Receiver, count: int) -> Speed:
    to.reset()
    with contestant.batch(to, count) as batch, batch.started() as sender:
        begun = to.wait_for(1, seconds=START_SECONDS, by=[sender])
        before = sender.cpu_seconds(), batch.store_cpu_seconds()
        ended = to.wait_for(count, seconds=30 + count / SLOWEST, by=[sender])
        after = sender.cpu_seconds(), batch.store_cpu_seconds()
        each = 1e6 / max(ended.count - begun.count, 1)
        return Speed(
            ended.per_second,
            (after[0] - before[0]) * each,
            (after[1] - before[1]) * each,
            sender.memory_bytes() + batch.store_bytes(),
            sender.processes(),
        )


def interrupt(contestant: Contestant, to: Receiver, *, count: int, kills: int) -> Fate:
    """SIGKILL while it sends; start it again; see what has come when nothing comes any more."""
    to.reset()
    points = kill_points(count, kills if contestant.remembers else 1)
    with contestant.batch(to, count) as batch:
        for point in points:
            with batch.started() as sender:
                to.wait_for(point, seconds=START_SECONDS + SETTLE_SECONDS, by=[sender])
                sender.kill()
        with batch.started():
            began = time.monotonic()
            tally = _settle(batch, to)
        held_back = batch.held_back()
        if not batch.is_worked_off():
            raise Failed(f"{contestant.name} was not done within {SETTLE_SECONDS:.0f} s of its last start")
    seconds = max(tally.last - began, 0.0)
    return fate_of(tally, count=count, kills=len(points), held_back=held_back, seconds=seconds)


def _settle(batch: Batch, to: Receiver) -> Tally:
    """Until nothing waits and nothing has come for a while."""
    deadline = time.monotonic() + SETTLE_SECONDS
    quiet_since, seen = time.monotonic(), -1
    while time.monotonic() < deadline:
        tally = to.tally()
        if tally.count != seen or not batch.is_worked_off():
            quiet_since, seen = time.monotonic(), tally.count
        elif time.monotonic() - quiet_since > QUIET_SECONDS:
            break
        time.sleep(LOOK_SECONDS)
    return to.tally()


def compare(contestants: Sequence[Contestant], to: Receiver, options: Options) -> Results:
    """Each once per round, in turn; then each is killed. One that cannot run is left out from then on."""
    results = Results()
    for turn in range(options.rounds + 1):
        for contestant in contestants:
            name = contestant.name
            if name in results.missing:
                continue
            try:
                if turn < options.rounds:
                    speed = send_all(contestant, to, options.count)
                    results.speeds.setdefault(name, []).append(speed)
                    tell(f"round {turn + 1} of {options.rounds}: {name}: {speed.per_second:,.0f}/s")
                else:
                    fate = interrupt(contestant, to, count=options.count, kills=options.kills)
                    results.fates[name] = fate
                    tell(f"killed: {name}: {fate.lost} of {fate.sent} lost")
            except (Failed, OSError, subprocess.SubprocessError) as problem:
                results.missing[name] = one_line(problem)
                tell(f"{name}: {problem}")
    return results


def speed_row(name: str, mine: Sequence[Speed], base: Sequence[Speed]) -> list[str]:
    both = min(len(mine), len(base))
    rates = typical_ratio([one.per_second for one in base[:both]], [one.per_second for one in mine[:both]])
    costs = typical_ratio([one.microseconds for one in mine[:both]], [one.microseconds for one in base[:both]])
    return [
        name,
        number(median(one.per_second for one in mine)),
        times(rates),
        number(median(one.microseconds for one in mine), "us"),
        number(median(one.store_microseconds for one in mine), "us"),
        times(costs),
        number(median(one.memory for one in mine) / 2**20, "MiB"),
        str(mine[-1].processes),
    ]


def fate_row(name: str, fate: Fate) -> list[str]:
    counts = (fate.sent, fate.kills, fate.lost, fate.held_back, fate.twice)
    return [name, *(f"{count:,}" for count in counts), f"{fate.seconds:.0f} s"]


def show(contestants: Sequence[Contestant], results: Results, options: Options) -> None:
    names = [contestant.name for contestant in contestants]
    base = results.speeds.get(names[0], [])
    speeds = [
        speed_row(name, results.speeds[name], base)
        if base and name in results.speeds
        else missing_row(name, len(SPEED))
        for name in names
    ]
    fates = [
        fate_row(name, results.fates[name]) if name in results.fates else missing_row(name, len(FATE)) for name in names
    ]
    print(f"A batch of {options.count:,}, medians of {options.rounds} rounds.\n\n{as_markdown(SPEED, speeds)}\n")
    print(f"The sender killed with SIGKILL in the middle, and started again.\n\n{as_markdown(FATE, fates)}")
    print(reasons(results.missing))


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="scripts/bench senders", description=__doc__)
    parser.add_argument("--engine", choices=(*command.ENGINES, command.BOTH), help="our database (both; quick sqlite)")
    parser.add_argument("--count", type=int, help="deliveries of a batch (5000; quick 1500)")
    parser.add_argument("--rounds", type=int, help="how often each sends a batch (3; quick 1)")
    parser.add_argument("--kills", type=int, help="of each sender within one batch (3; quick 1)")
    parser.add_argument("--quick", action="store_true", help="a small run: under 3 minutes")
    given = parser.parse_args(arguments)
    name, count, rounds, kills = ("sqlite", 1500, 1, 1) if given.quick else (command.BOTH, 5000, 3, 3)
    engines = command.engines_of(given.engine or name)
    options = Options(engines, given.count or count, given.rounds or rounds, given.kills or kills)
    if options.count < EACH_KILL * options.kills:
        parser.error(f"a batch must have at least {EACH_KILL} for each kill")
    return options


def run(options: Options) -> int:
    with ExitStack() as stack:
        ours = [Billhook(stack.enter_context(engine(name))) for name in options.engines]
        others: list[Contestant] = [Apprise("notify"), Apprise("async_notify"), Celery(), Celery(acks_late=True)]
        contestants: list[Contestant] = [*ours, *others]
        results = compare(contestants, stack.enter_context(receiver()), options)
    show(contestants, results, options)
    if unmeasured := [one.name for one in ours if one.name not in results.fates]:
        tell(f"not measured to the end: {', '.join(unmeasured)}")
        return 1
    goals = [at_most(f"{one.name}: lost when killed", results.fates[one.name].lost, 0) for one in ours]
    return report.conclude([Report([], goals)], as_document=False)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    return command.carry_out(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
