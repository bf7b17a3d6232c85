"""Start the servers under test as real processes, each on core 0, and read what they cost."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from bench.affinity import SERVER_CORE, pinned_to
from bench.credentials import Credentials

SCOPES = ("groups:read", "groups:write")  # two on either side, so that the tokens are of about the same size
START_SECONDS = 60.0  # an installation with 100,000 clients may read them all before it is ready
STOP_SECONDS = 10.0


class Failed(Exception):
    """A server or command under test did not do what the benchmark needs; the message says what it did."""


@dataclass(frozen=True)
class Server:
    name: str
    port: int
    process: psutil.Process
    log: Path | None = None

    def cpu_seconds(self) -> float:
        """User and system time of the whole process tree so far, ended children included."""
        return sum(_cpu_seconds(process) for process in self._tree())

    @property
    def is_alive(self) -> bool:
        try:
            return bool(self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    @property
    def last_words(self) -> str:
        return "" if self.log is None else self.log.read_text(errors="replace")[-4000:]

    def processes(self) -> int:
        return len(self._tree())

    def rss_bytes(self) -> int:
        return sum(_rss_bytes(process) for process in self._tree())

    def memory_bytes(self) -> int:
        """What the tree uses, pages that are shared counted once; forked children share most of theirs."""
        return sum(_pss_bytes(process) for process in self._tree())

    def peak_rss_bytes(self) -> int:
        """The most that each process of the tree has had; what it has now where the system does not tell."""
        return sum(_peak_rss_bytes(process) for process in self._tree())

    def signal(self, number: signal.Signals) -> None:
        try:
            self.process.send_signal(number)
        except psutil.NoSuchProcess as gone:
            raise Failed(f"{self.name} has ended") from gone

    def kill(self) -> None:
        """SIGKILL to the whole tree, as when the machine's power goes."""
        for process in self._tree():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self.process, *self.process.children(recursive=True)]
        except psutil.NoSuchProcess as gone:
            raise Failed(f"{self.name} has ended") from gone


def server_of(name: str, pid: int) -> Server:
    """One that somebody else has started."""
    try:
        return Server(name, 0, psutil.Process(pid))
    except psutil.NoSuchProcess as gone:
        raise Failed(f"{name} has ended") from gone


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):  # a child that has ended meanwhile is in its parent's figures
        return float(sum(process.cpu_times()[:4]))
    return 0.0


def _rss_bytes(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0


def _pss_bytes(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):  # PostgreSQL's helpers come and go
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.rss))
    return 0


def _peak_rss_bytes(process: psutil.Process) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return _rss_bytes(process)


@contextmanager
def billhook(
    data_dir: Path,
    *,
    settings: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    module: Sequence[str] = ("billhook",),
) -> Iterator[Server]:
    """`billhook serve` with default settings, as people run it: worker, console and log included."""
    port = free_port()
    command = [sys.executable, "-m", *module, "serve", "--port", str(port), *options]
    environment = {**billhook_environment(data_dir), **(settings or {})}
    log = data_dir / "serve.log"
    with serving("billhook", command, environment=environment, port=port, ready_path="/readyz", log=log) as server:
        yield server


@contextmanager
def billhook_worker(
    data_dir: Path, *, settings: Mapping[str, str], log: str = "worker.log", module: Sequence[str] = ("billhook",)
) -> Iterator[Server]:
    """`billhook worker`, on no core of its own: it may use what its threads and its database leave."""
    command = [sys.executable, "-m", *module, "worker"]
    environment = {**billhook_environment(data_dir), **settings}
    with running("billhook worker", command, environment=environment, log=data_dir / log) as server:
        yield server


@contextmanager
def running(name: str, command: list[str], *, environment: Mapping[str, str], log: Path) -> Iterator[Server]:
    """Start the command on no core of its own, in the folder of its log; stop it afterwards."""
    with _process(command, environment, log=log, core=None) as process:
        yield Server(name, 0, process, log)


def billhook_environment(data_dir: Path) -> dict[str, str]:
    """Ours without any BILLHOOK_* of the person who runs the benchmark: it measures the defaults."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("BILLHOOK_")}
    return {**ours, "BILLHOOK_DATA_DIR": str(data_dir)}


def billhook_command(data_dir: Path, *arguments: str, module: Sequence[str] = ("billhook",)) -> dict[str, Any]:
    """One `billhook … --json` on the installation; the document it prints."""
    command = [sys.executable, "-m", *module, *arguments, "--json"]
    done = subprocess.run(
        command, env=billhook_environment(data_dir), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise Failed(f"billhook {' '.join(arguments)}: exit status {done.returncode}\n{done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def create_client(data_dir: Path, name: str, *options: str, module: Sequence[str] = ("billhook",)) -> Credentials:
    scopes = [part for scope in SCOPES for part in ("--scope", scope)]
    document = billhook_command(data_dir, "client", "create", "--name", name, *scopes, *options, module=module)
    return Credentials(document["client_id"], document["client_secret"])


@contextmanager
def serving(
    name: str, command: list[str], *, environment: Mapping[str, str], port: int, ready_path: str, log: Path
) -> Iterator[Server]:
    """Start the command on the measured core, in the folder of its log; yield once it answers, stop it afterwards."""
    with _process(command, environment, log=log, core=SERVER_CORE) as process:
        server = Server(name, port, process, log)
        _wait_until_ready(server, ready_path)
        yield server


@contextmanager
def _process(
    command: list[str], environment: Mapping[str, str], *, log: Path, core: int | None
) -> Iterator[psutil.Process]:
    with log.open("wb") as output, pinned_to(core):
        child = subprocess.Popen(
            command, env=environment, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield psutil.Process(child.pid)
    finally:
        stop(child)


def stop(child: "subprocess.Popen[Any]", *, seconds: float = STOP_SECONDS, by: signal.Signals = signal.SIGTERM) -> None:
    """Ask it to end, and end it when it does not; it may have ended before."""
    child.send_signal(by)
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _wait_until_ready(server: Server, path: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(f"http://127.0.0.1:{server.port}{path}"):
        if not server.is_alive or time.monotonic() > deadline:
            raise Failed(f"{server.name} did not start:\n{server.last_words}")
        time.sleep(0.05)


def _answers(url: str) -> bool:
    """Whether there is any answer but "not yet": a peer without a readiness route says 404, which will do."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError as refusal:
        return refusal.code < 500
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
