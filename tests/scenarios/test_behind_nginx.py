"""Through a real nginx, with the configuration that operators copy: addresses, paths, forms and live pages."""

import html
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.scenarios.processes import PATIENCE, Billhook, until

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "deploy" / "nginx" / "billhook.conf").read_text()
PAGE = (ROOT / "docs" / "how-to" / "behind-nginx.md").read_text()
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
CALLER, STRANGER = "127.0.0.2", "127.0.0.3"  # nginx and Billhook have 127.0.0.1
USER = "user root;" if os.getuid() == 0 else ""  # else its workers could not write into our folder
PASSWORD = "correct horse battery staple"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not on the PATH")

# Around conf.d: as distributions have it, as far as it matters here, and everything in a folder of the test's own.
AROUND = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    gzip on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/conf.d/*.conf;
}}
"""


@dataclass(frozen=True)
class Door:
    """nginx, and how to come to it from an address of one's choice."""

    url: str
    prefix: str

    @contextmanager
    def caller(self, address: str = CALLER) -> Iterator[httpx.Client]:
        transport = httpx.HTTPTransport(local_address=address)
        with httpx.Client(base_url=self.url + self.prefix, transport=transport, timeout=PATIENCE) as http:
            yield http


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def written(folder: Path, *, port: int, upstream: int, more: str = "") -> Path:
    """The configuration as it is shipped; only the ports are ours, and what the page adds for a path."""
    (folder / "conf.d").mkdir(parents=True)
    shipped = CONFIGURATION.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    shipped = shipped.replace("listen 80;", f"listen 127.0.0.1:{port};")
    shipped = shipped.replace("    location / {", f"{more}\n    location / {{")
    (folder / "conf.d" / "billhook.conf").write_text(shipped)
    (folder / "nginx.conf").write_text(AROUND.format(folder=folder, user=USER))
    return folder / "nginx.conf"


@contextmanager
def nginx(configuration: Path) -> Iterator[None]:
    """Until the end of the block; its own check of the configuration must not even warn."""
    assert NGINX is not None
    tested = subprocess.run([NGINX, "-t", "-q", "-c", str(configuration)], capture_output=True, text=True, check=False)
    assert (tested.returncode, tested.stderr) == (0, "")
    running = subprocess.Popen([NGINX, "-c", str(configuration)], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.terminate()
        running.wait(PATIENCE)


@contextmanager
def door(program: Billhook, *, prefix: str = "", more: str = "") -> Iterator[Door]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    told = {"BILLHOOK_BASE_URL": url + prefix, "BILLHOOK_TRUSTED_PROXIES": "127.0.0.1"}
    server = program.serve(prefix=prefix, **told)
    configuration = written(program.folder / f"nginx{port}", port=port, upstream=server.port, more=more)
    with nginx(configuration):
        opened = Door(url, prefix)
        with opened.caller() as http:
            until(lambda: answers(http), what="nginx passes requests on")
        yield opened
    assert server.stop() == 0


def answers(http: httpx.Client) -> bool:
    try:
        return http.get("/healthz").status_code == 200
    except httpx.ConnectError:
        return False


@pytest.fixture(scope="module")
def root(shared_billhook: Billhook) -> Iterator[Door]:
    with door(shared_billhook) as opened:
        yield opened


def test_a_caller_has_its_own_address_and_cannot_make_one_up(shared_billhook: Billhook, root: Door) -> None:
    made = shared_billhook.json(
        "client", "create", "--name", "n", "--scope", "clients:read", "--network", f"{CALLER}/32"
    )
    body = {name: made[name] for name in ("client_id", "client_secret")}
    with root.caller() as caller, root.caller(STRANGER) as stranger:
        until(lambda: caller.post("/auth", json=body).status_code == 201, what="the client is known")
        assert stranger.post("/auth", json=body).status_code == 401
        forged = {"X-Forwarded-For": CALLER}
        assert stranger.post("/auth", json=body, headers=forged).status_code == 401


def test_what_machines_read_is_for_our_own_networks(root: Door) -> None:
    with root.caller() as stranger, root.caller("127.0.0.1") as ours:
        for path in ("/metrics", "/readyz"):
            assert (stranger.get(path).status_code, ours.get(path).status_code) == (403, 200)


def test_what_is_too_large_gets_our_own_answer(root: Door) -> None:
    with root.caller() as http:
        answer = http.post("/auth", json={"client_id": "x" * 100_000, "client_secret": "y"})
        assert answer.json()["code"] == "bad-request/invalid-parameters"


def test_people_sign_in_and_their_live_list_is_told_when_nothing_has_changed(
    shared_billhook: Billhook, root: Door
) -> None:
    done = shared_billhook.run("user", "create", "--email", "ada@example.com", stdin=f"{PASSWORD}\n")
    assert done.returncode == 0, done.stderr
    with root.caller() as browser:
        form = browser.get("/console/sign-in").text
        hidden = {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
        typed = hidden | {"email": "ada@example.com", "password": PASSWORD}
        entered = browser.post("/console/sign-in", data=typed, headers={"Origin": root.url})
        assert entered.status_code == 303, entered.text
        page = browser.get("/console/deliveries")
        assert page.headers["content-encoding"] == "gzip"
        (name, etag) = re.findall(r'id="(\w+)" data-live="[\d.]+"[^>]* data-etag="(\w+)"', page.text)[0]
        asked = {"X-Fragment": name, "If-None-Match": f'"{etag}"'}
        assert browser.get("/console/deliveries", headers=asked).status_code == 304
        asked["If-None-Match"] = '"another"'
        assert browser.get("/console/deliveries", headers=asked).status_code == 200


def test_under_a_path_as_the_page_has_it(billhook: Billhook) -> None:
    (location,) = re.findall(r"```nginx\n(.*?)```", PAGE, re.DOTALL)
    client = billhook.create_client()
    with door(billhook, prefix="/billing", more=location) as opened, opened.caller() as http:
        body = {name: client[name] for name in ("client_id", "client_secret")}
        token = http.post("/auth", json=body).json()["data"]["access_token"]
        me = http.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
        assert me.status_code == 200
        assert http.get("/console/").headers["location"].startswith(("/billing/console/", f"{opened.url}/billing/"))
        metadata = httpx.get(f"{opened.url}/billing/.well-known/oauth-authorization-server").json()
        assert metadata["issuer"] == f"{opened.url}/billing"
