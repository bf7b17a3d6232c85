"""What goes wrong in a soak: a plan that follows from its seed alone, and the hands that carry it out."""

import asyncio
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock, Thread
from time import monotonic
from typing import Any

import asyncpg
import psutil  # type: ignore[import-untyped]

from bench import moody
from bench.engines import Site, execute
from bench.fleet import API, AWAY_SECONDS, DELIVERING, SERVER, WORKER, Disk, Fleet, Slot
from bench.moody import Moody
from bench.servers import Failed
from bench.verdicts import FREEZE, KILL, STOP, Harm

LONG_FREEZE = f"{FREEZE} for longer than a lease"
FAST, IMMEDIATE, CUT = "fast restart", "immediate restart", "connections dropped"
FULL = "full"
POSTGRES, RECEIVER, DISK = "PostgreSQL", "receiver", "disk"
Kind = tuple[str, str, tuple[float, float]]  # where, what, and how long it may last

QUIET_SECONDS = 5.0  # at the beginning, so that there is something to disturb
GAP_SECONDS = (1.0, 6.0)  # between two faults
FROZEN_SECONDS, LONG_FROZEN_SECONDS = (1.0, 12.0), (62.0, 75.0)  # a lease lasts for 60
UNWELL_SECONDS = (3.0, 12.0)
FULL_SECONDS = (3.0, 12.0)
LONG_RUN_SECONDS = 240.0  # from here on somebody stands still for longer than a lease
# Until the same one is hit again: a breaker must not open twice in a row, a process must have begun to work, and where
# there is only one, senders must have had their turn.
REST_SECONDS = {POSTGRES: 5.0, DISK: 10.0, RECEIVER: 60.0, API: 10.0, WORKER: 10.0, SERVER: 20.0}
POSTGRES_SECONDS = 60.0
START_SECONDS = 60.0  # in which a process that is starting must have begun to work, to be hit
ASKING_SECONDS = 30.0

END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
LEASED = "SELECT id FROM deliveries WHERE lease IS NOT NULL"


@dataclass(frozen=True)
class Planned:
    at: float  # seconds from the beginning
    where: str
    what: str
    number: int = 0  # of several
    seconds: float = 0.0  # it lasts

    @property
    def ends(self) -> float:
        return self.at + self.seconds

    def disturbs(self, other: "Planned") -> bool:
        """Whether the same one would be hit again before it has come to itself."""
        if (self.where, self.number) != (other.where, other.number):
            return False
        rest = REST_SECONDS.get(self.where, 0.0)
        return self.at < other.ends + rest and other.at < self.ends + rest


def plan(seed: int, seconds: float, numbers: dict[str, int]) -> list[Planned]:
    """`numbers` says how many there are of each. The same for the same arguments.

    Like cards: no kind comes again before all others have, as far as those fit.
    """
    dice, planned, at = random.Random(seed), list[Planned](), QUIET_SECONDS
    kinds, cards = kinds_of(numbers), list[Kind]()
    if seconds >= LONG_RUN_SECONDS:
        planned.append(_long_freeze(dice, seconds, numbers))
    while at < seconds:
        cards = cards or dice.sample(kinds, len(kinds))
        wanted = [_drawn(dice, at, card, numbers) for card in cards]
        for number, each in enumerate(wanted):
            if each.ends <= seconds and not any(map(each.disturbs, planned)):
                planned.append(each)
                del cards[number]
                break
        at += dice.uniform(*GAP_SECONDS)
    return sorted(planned, key=lambda each: each.at)


def _drawn(dice: random.Random, at: float, card: Kind, numbers: dict[str, int]) -> Planned:
    where, what, lasting = card
    return Planned(at, where, what, dice.randrange(numbers[where]), dice.uniform(*lasting))


def kinds_of(numbers: dict[str, int]) -> list[Kind]:
    at_once = (0.0, 0.0)
    kinds = [(role, what, at_once) for role in (API, WORKER, SERVER) for what in (KILL, STOP)]
    kinds += [(role, FREEZE, FROZEN_SECONDS) for role in (API, WORKER, SERVER)]
    kinds += [(POSTGRES, what, at_once) for what in (FAST, IMMEDIATE, CUT)]
    kinds += [(RECEIVER, what, UNWELL_SECONDS) for what in moody.UNWELL]
    kinds += [(DISK, FULL, FULL_SECONDS)]
    return [kind for kind in kinds if numbers.get(kind[0])]


def _long_freeze(dice: random.Random, seconds: float, numbers: dict[str, int]) -> Planned:
    where, length = WORKER if numbers.get(WORKER) else SERVER, dice.uniform(*LONG_FROZEN_SECONDS)
    return Planned(
        dice.uniform(QUIET_SECONDS, seconds - length), where, LONG_FREEZE, dice.randrange(numbers[where]), length
    )


@dataclass
class Hands:
    """Carry out a plan, each fault in a thread of its own, and note what an inquest needs, one thread at a time."""

    site: Site
    fleet: Fleet
    receivers: Moody
    disk: Disk | None
    done: Counter[str] = field(default_factory=Counter)
    harms: list[Harm] = field(default_factory=list)
    skipped: int = 0  # planned for a process that had not begun to work
    unclean: int = 0  # stops that did not end with status 0
    last: float | None = None  # when the last one was over
    latest: str = ""  # for people
    problems: list[str] = field(default_factory=list)
    _noting: Lock = field(default_factory=Lock)
    _database: Lock = field(default_factory=Lock)  # it is up and stays up for whoever has this

    def carry_out(self, planned: list[Planned], beside: Callable[[], None]) -> None:
        """`beside` is done again and again meanwhile. Back when the last fault is over."""
        threads = list[Thread]()
        try:
            for thread in self._in_time(planned, beside):
                threads.append(thread)
                thread.start()
            while any(thread.is_alive() for thread in threads):
                beside()
                time.sleep(0.1)
        except BaseException:
            self.fleet.end()  # what lasts is cut short, and what was ended is not started again
            raise
        finally:
            for thread in threads:
                if thread.is_alive():  # the last one may not have begun
                    thread.join()
        if self.problems:
            raise Failed("; ".join(self.problems))

    def _in_time(self, planned: list[Planned], beside: Callable[[], None]) -> Iterator[Thread]:
        began = monotonic()
        for each in planned:
            while monotonic() < began + each.at:
                beside()
                time.sleep(0.1)
            yield Thread(target=self._do, args=(each,))

    def _do(self, fault: Planned) -> None:
        self.latest = name = f"{fault.where} {fault.number + 1}: {fault.what}"
        try:
            over = self._happen(fault)
        except Exception as error:  # noqa: BLE001 - the edge: a thread would end unheard
            with self._noting:
                self.problems.append(f"{name}: {type(error).__name__}: {error}")
            return
        with self._noting:
            if over is None:
                self.skipped += 1
            else:
                self.done[f"{fault.where}: {fault.what}"] += 1
                self.last = max(self.last or over, over)

    def _happen(self, fault: Planned) -> float | None:
        """When it was over; None: it could not happen. What a process takes to start again comes after that."""
        if fault.where == POSTGRES:
            return self._disturb_postgres(fault.what)
        if fault.where == RECEIVER:
            return self._upset(fault)
        if fault.where == DISK:
            return self._fill(fault.seconds)
        slot = self.fleet.of(fault.where)[fault.number]
        waited = 0.0  # not counting what another fault takes
        while waited < START_SECONDS and not self.fleet.over.is_set():
            with slot.lock:
                if slot.is_at_work:
                    return self._hit(slot, fault)
            self._linger(AWAY_SECONDS)
            waited += AWAY_SECONDS
        return None

    def _hit(self, slot: Slot, fault: Planned) -> float | None:
        if fault.what == KILL:
            return self._kill(slot)
        if fault.what == STOP:
            return self._stop(slot)
        return self._freeze(slot, fault.seconds)

    def _kill(self, slot: Slot) -> float:
        with self._database:
            slot.signal(signal.SIGKILL)
            at = monotonic()
            slot.wait()
            self._note(Harm(KILL, slot.pid, at, at, self._leased_to(slot)))
        self._linger(AWAY_SECONDS)
        self.fleet.start(slot)
        return at

    def _stop(self, slot: Slot) -> float:
        slot.signal(signal.SIGTERM)
        at = monotonic()
        is_unclean, ended = slot.wait() != 0, monotonic()
        self._note(Harm(STOP, slot.pid, at, ended, frozenset()), is_unclean=is_unclean)
        self._linger(AWAY_SECONDS)
        self.fleet.start(slot)
        return ended

    def _freeze(self, slot: Slot, seconds: float) -> float | None:
        with self._database:
            if not slot.stand_still():
                return None
            at, leased = monotonic(), self._leased_to(slot)
        self._linger(seconds)
        slot.signal(signal.SIGCONT)
        self._note(Harm(FREEZE, slot.pid, at, monotonic(), leased))
        return monotonic()

    def _note(self, harm: Harm, *, is_unclean: bool = False) -> None:
        with self._noting:
            self.harms.append(harm)
            self.unclean += is_unclean

    def _linger(self, seconds: float) -> None:
        """A fault lasts so long, unless all ends before."""
        self.fleet.over.wait(seconds)

    def _leased_to(self, slot: Slot) -> frozenset[str]:
        """What it may have in the air: all that is leased, to whomever, if it is one that delivers."""
        if slot.role not in DELIVERING:
            return frozenset()
        return frozenset(row[0] for row in rows_of(self.site, LEASED))

    def _disturb_postgres(self, what: str) -> float:
        with self._database:
            if what == CUT:
                asyncio.run(execute(self.site.location, END_OTHERS))
                return monotonic()
            server = self.site.engine.postgres
            process = psutil.Process(server.get_pid())
            process.send_signal(signal.SIGINT if what == FAST else signal.SIGQUIT)
            process.wait(POSTGRES_SECONDS)
            server.ensure_postgres_running()
            return monotonic()

    def _upset(self, fault: Planned) -> float:
        self.receivers.be(fault.number, fault.what)
        self._linger(fault.seconds)
        self.receivers.be(fault.number, moody.WELL)
        return monotonic()

    def _fill(self, seconds: float) -> float:
        assert self.disk is not None
        with self._database:  # nobody is killed meanwhile: it could not start again
            self.disk.fill()
            self._linger(seconds)
            self.disk.free()
            return monotonic()


def rows_of(site: Site, query: str) -> list[tuple[Any, ...]]:
    if site.engine.postgres is None:
        with closing(sqlite3.connect(site.sqlite_file, timeout=ASKING_SECONDS)) as db:
            return db.execute(query).fetchall()

    async def ask() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(site.location, timeout=ASKING_SECONDS, command_timeout=ASKING_SECONDS)
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return asyncio.run(ask())
