"""One server whose receivers are hostile in all ways we know, and all at once: it keeps its size, and serves others."""

import asyncio
import gzip
import secrets
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from anyio.from_thread import start_blocking_portal

from tests.delivery.receivers import response
from tests.outbound.certificates import Authority
from tests.outbound.receivers import OK, Answer, RawReceiver, endless, hang, then_reset
from tests.scenarios.ledger import Ledger
from tests.scenarios.processes import Server, bearer, billhook_in, until
from tests.scenarios.recorder import Recorder

KEPT = 16 * 1024  # characters of a response at most
MOST_MEMORY = 200 * 1024 * 1024
STEP = timedelta(hours=1)  # so that each delivery is attempted once while we look
STEP_AND_JITTER = STEP * 1.2 + timedelta(minutes=1)  # and the time that the attempt itself took
DAY = timedelta(hours=24)
METADATA = "http://169.254.169.254/latest/meta-data/"
MANY_HEADERS = b"".join(b"X-Header-%d: value\r\n" % number for number in range(10_000))
BOMB = gzip.compress(bytes(100 * 1024 * 1024))
GIGABYTE = b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n"


async def one_byte_a_second(_reader: StreamReader, writer: StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(1)


@dataclass(frozen=True)
class Hostile:
    """What it does, and what must be known of a delivery to it after one attempt."""

    answer: bytes | Answer = OK
    state: str = "pending"
    status: int | None = None
    error: str | None = None
    wait: tuple[timedelta, timedelta] = (STEP, STEP_AND_JITTER)  # before the next attempt, at least and at most
    count: int = 3  # deliveries to it, all at once
    tls: str | None = None  # which of its certificates
    url: str | None = None  # where it is, if not here
    is_reached: bool = True  # whether it gets to see any request


def unwell(retry_after: str, **fields: Any) -> Hostile:
    return Hostile(response(503, f"Retry-After: {retry_after}"), status=503, count=1, **fields)


def refused(tls: str) -> Hostile:
    return Hostile(error="tls_error", tls=tls, is_reached=False)


HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
HOSTILE = {
    "never answers": Hostile(hang, error="timeout"),
    "answers one byte a second": Hostile(one_byte_a_second, status=200, error="timeout"),
    "sends a gigabyte": Hostile(endless(GIGABYTE, bytes(65536)), "delivered", 200, count=8),
    "sends a gzip bomb": Hostile(response(200, "Content-Encoding: gzip", body=BOMB), "delivered", 200, count=8),
    "sends 10,000 headers": Hostile(b"HTTP/1.1 200 OK\r\n" + MANY_HEADERS + b"\r\n", error="bad_response"),
    "breaks off within the body": Hostile(then_reset(HALF), status=200, error="connection_reset"),
    "redirects to a metadata service": Hostile(response(302, f"Location: {METADATA}"), status=302),
    "is a metadata service": Hostile(state="failed", error="blocked_address", url=METADATA, is_reached=False),
    "has an expired certificate": refused("expired"),
    "has a certificate for another host": refused("other host"),
    "has a good certificate": Hostile(state="delivered", status=200, tls="good", count=1),  # not hostile: to compare
    "asks for a wait of -1 s": unwell("-1"),
    "asks for a wait of 31 years": unwell("1000000000", wait=(DAY, DAY + STEP)),
    "asks for a wait of 1e9 s": unwell("1e9"),
    "asks for a wait of garbage": unwell("a fortnight; Fri, 99 Foo 0000 99:99:99 GMT"),
}
SLOW = ("never answers", "answers one byte a second")


@dataclass(frozen=True)
class Certificates:
    authority_file: Path
    contexts: dict[str, ssl.SSLContext]


@dataclass
class Aftermath:
    """What there was to see."""

    deliveries: dict[str, list[dict[str, Any]]]  # to the hostile ones, as the API shows them
    requests: dict[str, int]
    served: int  # to another, while the hostile ones were under way
    memory: int  # bytes at most


@dataclass
class Watch:
    """Looks at the server through its API, and each time at how much memory it takes."""

    server: Server
    token: str
    memory: int = 0

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self.memory = max(self.memory, psutil.Process(self.server.process.pid).memory_info().rss)
        answer = self.server.http.request(method, f"/api/v1{path}", json=body, headers=bearer(self.token))
        assert answer.is_success, answer.text
        return answer.json()["data"]

    def delivery(self, delivery_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/deliveries/{delivery_id}")
        return found

    def was_attempted(self, delivery_id: str) -> bool:
        return bool(self.delivery(delivery_id)["attempts"])

    def send(self, group_id: str) -> str:
        accepted = self.call("POST", f"/groups/{group_id}/notifications", {"title": "Budget", "content": "exceeded"})
        return str(accepted["deliveries"][0]["id"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    (its_own,) = authority.client_context().get_ca_certs(binary_form=True)
    (folder / "authority.pem").write_text(ssl.DER_cert_to_PEM_cert(its_own))
    yesterday = datetime.now(UTC) - timedelta(days=1)
    contexts = {
        "good": authority.server_context("127.0.0.1"),
        "expired": authority.server_context("127.0.0.1", until=yesterday),
        "other host": authority.server_context("receiver.example"),
    }
    return Certificates(folder / "authority.pem", contexts)


@pytest.fixture(scope="module")
def receivers(certificates: Certificates) -> Iterator[dict[str, RawReceiver]]:
    """All of them, in a thread of their own."""
    with start_blocking_portal() as portal, ExitStack() as opened:
        yield {
            name: opened.enter_context(
                portal.wrap_async_context_manager(
                    RawReceiver(hostile.answer, tls=certificates.contexts.get(hostile.tls or ""))
                )
            )
            for name, hostile in HOSTILE.items()
        }


@pytest.fixture(scope="module")
def aftermath(
    receivers: dict[str, RawReceiver], certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Aftermath]:
    folder = tmp_path_factory.mktemp("hostile")
    environment = {
        "BILLHOOK_DATABASE_URL": f"sqlite:///{folder}/billhook.db",
        "BILLHOOK_MASTER_KEY": secrets.token_urlsafe(32),
        "BILLHOOK_OUTBOUND_ALLOW": "127.0.0.0/8",
        "BILLHOOK_RETRY_SCHEDULE": "1h",
        "SSL_CERT_FILE": str(certificates.authority_file),
    }
    with billhook_in(folder, **environment) as program, Recorder() as other:
        ledger = Ledger.of(program)
        sent = {
            name: ledger.queue(hostile.url or receivers[name].url(), hostile.count) for name, hostile in HOSTILE.items()
        }
        client, group = ledger.credentials(), ledger.group(other.url())
        server = program.serve()
        watch = Watch(server, server.token(client))
        served = serve_another_meanwhile(watch, group, other, [each for name in SLOW for each in sent[name]])
        for delivery_id in chain.from_iterable(sent.values()):
            until(lambda: watch.was_attempted(delivery_id), what="each was attempted")  # noqa: B023
        deliveries = {name: [watch.delivery(each) for each in ids] for name, ids in sent.items()}
        requests = {name: len(receiver.requests) for name, receiver in receivers.items()}
        assert server.stop() == 0
        assert "Traceback" not in server.stderr
        yield Aftermath(deliveries, requests, served, watch.memory)


def serve_another_meanwhile(watch: Watch, group_id: str, other: Recorder, slow: list[str]) -> int:
    """One after the other for as long as the slow ones are under way. How many there were."""
    served = 0
    while not all(map(watch.was_attempted, slow)):
        sent = watch.send(group_id)
        until(lambda: watch.delivery(sent)["state"] == "delivered", what="another is served")  # noqa: B023
        assert other.ids[-1] == sent
        served += 1
    return served


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_receiver_did_is_told_when_it(aftermath: Aftermath, name: str) -> None:
    hostile, told = HOSTILE[name], aftermath.deliveries[name]
    words = {(each["state"], each["attempts"], each["status"], each["error"]) for each in told}
    assert words == {(hostile.state, 1, hostile.status, hostile.error)}
    assert aftermath.requests[name] == (hostile.count if hostile.is_reached else 0)
    for attempt in (each["attempt_log"][0] for each in told):
        assert len(attempt["response_body"]) <= KEPT
        if hostile.state == "pending":
            wait = datetime.fromisoformat(attempt["next_attempt_at"]) - datetime.fromisoformat(attempt["at"])
            assert hostile.wait[0] <= wait <= hostile.wait[1]


def test_others_are_served_while_hostile_receivers_are_under_way(aftermath: Aftermath) -> None:
    assert aftermath.served >= 10


def test_hostile_receivers_cannot_make_the_server_grow(aftermath: Aftermath) -> None:
    assert 0 < aftermath.memory < MOST_MEMORY


def test_what_a_hostile_receiver_sends_is_kept_in_part_only(aftermath: Aftermath) -> None:
    for name in ("sends a gigabyte", "sends a gzip bomb"):
        assert all(each["attempt_log"][0]["response_truncated"] for each in aftermath.deliveries[name])
