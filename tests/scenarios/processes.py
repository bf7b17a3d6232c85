"""The program as an operator runs it: real processes, each with its own environment, and all of them ended again."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]

PATIENCE = 180.0  # seconds; a process needs two to five to start, many more when the machine is busy
MODULE = (sys.executable, "-m", "billhook")
CLIENTS_SCOPE = "clients:read clients:write"


def until(holds: Callable[[], bool], *, what: str, seconds: float = PATIENCE) -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


@dataclass(frozen=True)
class Running:
    """A started process, and what it has written so far."""

    process: subprocess.Popen[bytes]
    stdout_file: Path
    stderr_file: Path

    @property
    def stdout(self) -> str:
        return self.stdout_file.read_text()

    @property
    def stderr(self) -> str:
        return self.stderr_file.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = PATIENCE) -> int:
        return self.process.wait(seconds)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """For the finaliser: gone, whatever it was doing."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def listens_on(self) -> int | None:
        """The port, once it listens; asked of the system, so that it does not depend on what is logged."""
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.stderr}"
        sockets = psutil.Process(self.process.pid).net_connections(kind="tcp")
        return next((int(each.laddr.port) for each in sockets if each.status == psutil.CONN_LISTEN), None)

    def has_open(self, path: Path) -> bool:
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.stderr}"
        return any(Path(each.path) == path for each in psutil.Process(self.process.pid).open_files())


@dataclass(frozen=True)
class Server(Running):
    """A process that serves, and a way to call it."""

    port: int
    http: httpx.Client

    def post_auth(self, credentials: dict[str, str]) -> httpx.Response:
        return self.http.post("/auth", json={name: credentials[name] for name in ("client_id", "client_secret")})

    def token(self, credentials: dict[str, str]) -> str:
        answer = self.post_auth(credentials)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["data"]["access_token"])

    def get_me(self, token: str) -> httpx.Response:
        return self.http.get("/api/v1/me", headers=bearer(token))

    def accepts(self, token: str) -> bool:
        """Whether the token counts here. Any answer but yes and no is a failure."""
        status = self.get_me(token).status_code
        assert status in (200, 401)
        return status == 200

    def issues(self, credentials: dict[str, str]) -> bool:
        """Whether the credentials count here. Any answer but yes and no is a failure."""
        status = self.post_auth(credentials).status_code
        assert status in (201, 401)
        return status == 201

    def end(self) -> None:
        self.http.close()
        super().end()


@dataclass
class Billhook:
    """The program on one installation: a folder, and the environment it is started with."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: Sequence[str] = MODULE
    started: list[Running] = field(default_factory=list)

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def database_file(self) -> Path:
        return self.data_dir / "billhook.db"

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """A command that ends by itself."""
        return subprocess.run(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self._environment(environment),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def json(self, *arguments: str, stdin: str = "", **environment: str) -> Any:
        """What a command with --json prints when all is well."""
        done = self.run(*arguments, "--json", stdin=stdin, **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def create_client(self, *, scope: str = CLIENTS_SCOPE, organization: str | None = None) -> dict[str, Any]:
        whose = ("--organization", organization) if organization else ()
        created: dict[str, Any] = self.json("client", "create", "--name", "robot", "--scope", scope, *whose)
        return created

    def start(self, *arguments: str, **environment: str) -> Running:
        """A process that goes on; nothing is waited for."""
        number = len(self.started)
        stdout, stderr = self.folder / f"{number}.stdout", self.folder / f"{number}.stderr"
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = subprocess.Popen(
                [*self.command, *arguments],
                cwd=self.folder,
                env=self._environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        running = Running(process, stdout, stderr)
        self.started.append(running)
        return running

    def serve(self, command: str = "serve", *, prefix: str = "", **environment: str) -> Server:
        return self.ready(self.start(command, "--port", "0", **environment), prefix=prefix)

    def ready(self, running: Running, *, prefix: str = "") -> Server:
        """The same process as a Server, once it says that it is ready."""
        until(lambda: running.listens_on() is not None, what="the server listens")
        port = running.listens_on()
        assert port is not None
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}{prefix}", timeout=PATIENCE, trust_env=False)
        server = Server(running.process, running.stdout_file, running.stderr_file, port, http)
        self.started[self.started.index(running)] = server
        until(lambda: http.get("/readyz").status_code == 200, what="the server is ready")
        return server

    def end_all(self) -> None:
        for running in self.started:
            running.end()

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BILLHOOK_", "PYTHON"))}
        ours = {"BILLHOOK_DATA_DIR": str(self.data_dir)} | self.environment | more
        return inherited | ours


@contextmanager
def billhook_in(folder: Path, command: Sequence[str] = MODULE, **environment: str) -> Iterator[Billhook]:
    """An installation of its own; whatever was started on it is ended at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    program = Billhook(folder, environment, command)
    try:
        yield program
    finally:
        program.end_all()


@contextmanager
def installed(folder: Path, location: str, **environment: str) -> Iterator[Billhook]:
    """The program on this database, allowed to send to this machine."""
    shared = {"BILLHOOK_DATABASE_URL": location, "BILLHOOK_MASTER_KEY": secrets.token_urlsafe(32)}
    with billhook_in(folder, **shared, BILLHOOK_OUTBOUND_ALLOW="127.0.0.0/8", **environment) as program:
        yield program


def end_at_once(own_postgres: Any) -> None:
    """PostgreSQL's immediate shutdown: every connection breaks off without a word."""
    process = psutil.Process(own_postgres.get_pid())
    process.send_signal(signal.SIGQUIT)
    process.wait(PATIENCE)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def assert_all_refused(program: Billhook, *commands: Sequence[str], word: str, **environment: str) -> None:
    """The same for several commands, run side by side: each takes seconds to start."""
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda command: program.run(*command, **environment), commands):
            assert_refused(done, word)


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Status 1 and one line on standard error that says why; no traceback, nothing on standard output."""
    assert done.returncode == 1, done.stderr
    assert_one_line(done.stderr, *words)
    assert done.stdout == ""


def assert_one_line(text: str, *words: str) -> None:
    assert text.startswith("billhook: ") and text.endswith("\n"), text
    assert text.count("\n") == 1, text
    for word in words:
        assert word in text


def problem(answer: httpx.Response) -> str:
    """The code of an error that has the one JSON shape of all errors."""
    assert answer.headers["content-type"] == "application/json", answer.text
    body = answer.json()
    assert body.keys() - {"errors"} == {"code", "message"} and body["message"], body
    return str(body["code"])
