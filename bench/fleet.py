"""The processes of an installation, and what may happen to one: killed, frozen, told to stop, and started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock

import psutil  # type: ignore[import-untyped]

from bench.servers import Failed, free_port

API, WORKER, SERVER = "API", "worker", "server"
DELIVERING = (WORKER, SERVER)
COMMANDS = {API: "api", WORKER: "worker", SERVER: "serve"}
STOP_SECONDS = 40.0  # twice what a worker takes that waits for a receiver that hangs
AWAY_SECONDS = 0.5  # between an end and the next start, as a supervisor has it
AT_WORK_SECONDS, LONGEST_AT_WORK_SECONDS = 3.0, 20.0
FIRST_WORDS = 1 << 16  # bytes of a log in which it has said so
READY = (b'"event":"serving"', b'"event":"delivering"')


@dataclass
class Slot:
    """A place for one process: always the same command, port and environment, whoever is in it."""

    role: str
    number: int
    environment: Mapping[str, str]
    log: Path
    port: int = 0
    lock: Lock = field(default_factory=Lock)  # one thing happens to it at a time
    process: "subprocess.Popen[bytes] | None" = None
    pids: list[int] = field(default_factory=list)  # all that were ever in it
    logged: int = 0  # bytes of the log that are of those before
    started_at: float = 0.0  # monotonic, of the present one
    ready_at: float | None = None

    @property
    def name(self) -> str:
        return f"{self.role} {self.number + 1}"

    @property
    def pid(self) -> int:
        return self.pids[-1]

    @property
    def has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def is_ready(self) -> bool:
        """Whether it says that it works: until then it has nothing to lose."""
        with self.log.open("rb") as log:
            log.seek(self.logged)
            said = log.read(FIRST_WORDS)
        return not self.has_ended and any(word in said for word in READY)

    @property
    def is_at_work(self) -> bool:
        """Ready for a while; on a slow machine a longer one, since there would be nothing but starts otherwise."""
        if self.ready_at is None or self.has_ended:
            return False
        start_took = min(self.ready_at - self.started_at, LONGEST_AT_WORK_SECONDS)
        return time.monotonic() - self.ready_at >= max(AT_WORK_SECONDS, start_took)

    def look(self) -> None:
        if self.ready_at is None and self.is_ready:
            self.ready_at = time.monotonic()

    def start(self) -> None:
        options = ["--port", str(self.port)] if self.port else []
        command = [sys.executable, "-m", "billhook", COMMANDS[self.role], *options]
        with self.log.open("ab") as output:
            self.logged = output.tell()
            self.process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.pids.append(self.process.pid)
        self.started_at, self.ready_at = time.monotonic(), None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(STOP_SECONDS)

    def stand_still(self) -> bool:
        """SIGSTOP, and only back when it has taken effect. False: it had ended by itself."""
        self.signal(signal.SIGSTOP)
        while not self.has_ended:  # until that is asked it stays in the system's table, if only as a zombie
            with suppress(psutil.NoSuchProcess):  # or until somebody else asks, who ends them all
                if psutil.Process(self.pid).status() == psutil.STATUS_STOPPED:
                    return True
            time.sleep(0.005)
        return False

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@dataclass
class Fleet:
    slots: list[Slot]
    tell: Callable[[list[int]], None]  # who delivers, whenever that changes
    revived: int = 0  # processes that had ended by themselves
    over: Event = field(default_factory=Event)  # from here on nobody is started

    def of(self, role: str) -> list[Slot]:
        return [slot for slot in self.slots if slot.role == role]

    def start(self, slot: Slot) -> None:
        """By whoever has the lock of the slot, so that nobody is started behind the end of all."""
        if self.over.is_set():
            return
        slot.start()
        self.tell([each.pid for each in self.slots if each.role in DELIVERING and each.pids])

    def revive(self) -> None:
        """What a supervisor does: look after all, and start again who has ended, such as one that found no database."""
        for slot in self.slots:
            if slot.lock.acquire(blocking=False):
                try:
                    if slot.has_ended:
                        self.revived += 1
                        self.start(slot)
                    slot.look()
                finally:
                    slot.lock.release()

    def tracebacks(self) -> int:
        return sum(slot.log.read_text(errors="replace").count("Traceback (most recent") for slot in self.slots)

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for slot in self.slots:
                with slot.lock:
                    self.start(slot)
            yield
        finally:
            self.end()

    def end(self) -> None:
        """All of them, for good."""
        self.over.set()
        for slot in self.slots:
            slot.end()  # whoever waits for it need not wait any longer
            with slot.lock:
                slot.end()  # it may have been started again meanwhile


def make_slots(roles: Mapping[str, int], folder: Path, environment: Mapping[str, str]) -> list[Slot]:
    def slot(role: str, number: int) -> Slot:
        port = 0 if role == WORKER else free_port()
        return Slot(role, number, environment, folder / f"{role}-{number + 1}.log", port)

    return [slot(role, number) for role, count in roles.items() for number in range(count)]


def wrong_clock(environment: Mapping[str, str], offset: str) -> dict[str, str] | None:
    """The environment of a process whose wall clock is off, as libfaketime has it; None where that is not installed."""
    library = next(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"), None)
    if library is None:
        return None
    faked = {"LD_PRELOAD": str(library), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return {**environment, **faked}


class Disk:
    """A small disk of its own for a folder, which can be filled to the last byte and freed again."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab") as file:
            room = os.statvfs(self._ballast)
            try:
                os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
                while True:  # what was freed or rounded meanwhile
                    os.write(file.fileno(), bytes(4096))
            except OSError:  # full, as it shall be
                return

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Disk | None]:
    """A tmpfs over the folder, which is empty on it; None where one may not mount."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "billhook-soak", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        yield None
        return
    try:
        yield Disk(folder)
    finally:
        done = subprocess.run(["umount", str(folder)], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"could not unmount {folder}: {done.stderr}")
