"""Start the token endpoints that are written in Python, each under gunicorn with one worker; look at their tokens."""

import base64
import json
import os
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.environment import HERE, peers_python
from bench.peers.oidc_provider import CREDENTIALS, token_request
from bench.servers import SCOPES, Failed, Server, free_port, serving

AUTHLIB = ("Authlib", "joserfc", "Flask", "Flask-SQLAlchemy", "gunicorn")
DJANGO = ("django-oauth-toolkit", "gunicorn")
# Threads, because gunicorn's plain worker ends every connection with its answer, and our generator keeps them.
GUNICORN = ("--workers", "1", "--worker-class", "gthread", "--threads", "4", "--keep-alive", "75", "--timeout", "120")
SETUP_SECONDS = 120.0


@contextmanager
def authlib_server() -> Iterator[Server]:
    python = peers_python(*AUTHLIB)
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as folder:
        with _gunicorn(python, "authlib_app:app", Path(folder), {}) as server:
            _must_sign(server)
            yield server


@contextmanager
def django_server(*, hashes_secret: bool) -> Iterator[Server]:
    python = peers_python(*DJANGO)
    more = {"HASH_SECRET": "yes" if hashes_secret else "no"}
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as folder:
        _set_up(python, Path(folder), more)
        with _gunicorn(python, "django_app:app", Path(folder), more) as server:
            _token(server)
            yield server


def _set_up(python: Path, folder: Path, more: dict[str, str]) -> None:
    command = [str(python), str(HERE / "django_app.py")]
    environment = _environment(folder, 0) | more
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SETUP_SECONDS)
    if done.returncode != 0:
        raise Failed(f"django-oauth-toolkit could not be set up:\n{done.stderr[-2000:]}")


@contextmanager
def _gunicorn(python: Path, app: str, folder: Path, more: dict[str, str]) -> Iterator[Server]:
    port = free_port()
    where = ["--bind", f"127.0.0.1:{port}", "--pythonpath", str(HERE)]
    command = [str(python), "-m", "gunicorn", *GUNICORN, *where, app]
    environment, log = _environment(folder, port) | more, folder / "serve.log"
    name = app.partition("_")[0]
    with serving(name, command, environment=environment, port=port, ready_path="/", log=log) as server:
        try:
            yield server
        finally:
            server.kill()  # told to stop it would first work off whatever waits


def _environment(folder: Path, port: int) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BILLHOOK_"))}
    client = {"CLIENT_ID": CREDENTIALS.client_id, "CLIENT_SECRET": CREDENTIALS.client_secret}
    return {**ours, **client, "DATA": str(folder), "ISSUER": f"http://127.0.0.1:{port}", "SCOPE": " ".join(SCOPES)}


def _must_sign(server: Server) -> None:
    header = json.loads(base64.urlsafe_b64decode(_token(server).partition(".")[0] + "=="))
    if header["alg"] != "ES256":
        raise Failed(f"{server.name} issued a token with the header {header}")


def _token(server: Server) -> str:
    body = token_request().partition("\r\n\r\n")[2].encode()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/token", body, timeout=30) as answer:
            return str(json.load(answer)["access_token"])
    except urllib.error.HTTPError as refusal:
        raise Failed(f"{server.name} answered {refusal.code}: {refusal.read()[:500]!r}") from refusal
