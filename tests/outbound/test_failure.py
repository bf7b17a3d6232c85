"""What receivers and networks do to us, each by its word; the status survives where there was one."""

import socket
import time
from asyncio import StreamReader, StreamWriter
from datetime import UTC, datetime, timedelta

import pytest
import uvloop

from billhook.outbound.client import STOOD_STILL_SECONDS, Budget
from billhook.outbound.request import ERRORS, Exchange
from tests.outbound.certificates import Authority
from tests.outbound.dns_server import NameServer
from tests.outbound.receivers import OK, Answer, RawReceiver, drip, endless, hang, hang_up, then_hang, then_reset
from tests.outbound.senders import post, send_once

HASTY = Budget(total=0.5)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n"
MEGABYTES = b"x" * 65_536


async def exchange_with(answer: bytes | Answer, budget: Budget = Budget()) -> Exchange:  # noqa: B008 - it is frozen
    async with RawReceiver(answer) as receiver:
        exchange = await send_once(post(receiver.url()), budget=budget)
    assert exchange.address == receiver.address
    assert exchange.error is None or exchange.error in ERRORS
    return exchange


@pytest.mark.parametrize(
    "answer", [hang, then_hang(b"HTTP/1.1 200 OK\r\nX-Slow: "), then_hang(b"HTTP/1.1 100 X\r\n\r\n")]
)
async def test_a_receiver_that_does_not_answer_times_out(answer: Answer) -> None:
    exchange = await exchange_with(answer, HASTY)
    assert (exchange.status, exchange.error, exchange.timings.first_byte) == (None, "timeout", None)


@pytest.mark.parametrize(("says", "status", "error"), [(OK, 200, None), (b"", None, "timeout")], ids=["came", "none"])
def test_an_answer_that_came_while_this_process_stood_still_is_read(
    says: bytes, status: int | None, error: str | None
) -> None:
    """A receiver that has taken it must not get it again because we were stopped. In the loop that workers have: its
    timers ring before it reads."""

    async def answer_and_stop_us(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(says)
        time.sleep(HASTY.total + STOOD_STILL_SECONDS + 0.2)  # noqa: ASYNC251 - the whole loop stands still
        await hang(reader, writer)

    exchange = uvloop.run(exchange_with(answer_and_stop_us, HASTY))
    assert (exchange.status, exchange.error) == (status, error)


async def test_an_answer_that_does_not_end_times_out_with_its_status() -> None:
    exchange = await exchange_with(then_hang(HEAD + b"so far"), HASTY)
    assert (exchange.status, exchange.error, exchange.body) == (200, "timeout", b"so far")
    assert exchange.headers == (("content-length", "1073741824"),)


async def test_a_head_that_drips_forever_times_out() -> None:
    exchange = await exchange_with(drip(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10_000_000), HASTY)
    assert (exchange.status, exchange.error) in {(None, "timeout"), (None, "bad_response")}


@pytest.mark.parametrize(
    "head", [HEAD, b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n"]
)
async def test_a_body_without_end_is_cut_and_no_error(head: bytes) -> None:
    exchange = await exchange_with(endless(head, MEGABYTES))
    assert (exchange.status, exchange.error, exchange.body, exchange.truncated) == (200, None, b"x" * 16_384, True)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(10_000)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(100)) + b"\r\n",
        drip(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 700) for n in range(50)) + b"\r\n"),
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000,
        b"HTTP/1.1 200 " + b"y" * 1_000_000,
        endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        endless(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" * 100),
    ],
)
async def test_a_head_that_is_too_long_is_no_response(answer: bytes | Answer) -> None:
    exchange = await exchange_with(answer)
    assert (exchange.status, exchange.error, exchange.body) == (None, "bad_response", b"")


@pytest.mark.parametrize("lines", [30, 100])
async def test_a_long_head_within_the_limit_is_read_and_a_long_body_is_not_taken_for_one(lines: int) -> None:
    filling = b"".join(b"X-%d: %s\r\n" % (number, b"y" * (28_000 // lines)) for number in range(lines))
    head = b"HTTP/1.1 200 OK\r\n" + filling + b"Content-Length: 60000\r\n\r\n"
    exchange = await exchange_with(head + b"x" * 60_000)
    assert (exchange.status, exchange.error, exchange.truncated) == (200, None, True)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"HTTP/2.0 nonsense\r\n\r\n",
        b"HTTP/1.1 OK 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nServer: a\x00b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"\r\n\r\n<html>\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_no_response(answer: bytes) -> None:
    exchange = await exchange_with(answer)
    assert (exchange.status, exchange.error) == (None, "bad_response")


async def test_a_body_that_is_not_http_is_a_bad_response_with_its_status() -> None:
    exchange = await exchange_with(drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n"))
    assert (exchange.status, exchange.error, exchange.body) == (200, "bad_response", b"ok")


@pytest.mark.parametrize("answer", [hang_up, then_reset(b""), then_reset(b"HTTP/1.1 200 OK\r\nX: y")])
async def test_a_connection_that_breaks_before_the_answer_is_a_reset(answer: Answer) -> None:
    exchange = await exchange_with(answer)
    assert (exchange.status, exchange.error) == (None, "connection_reset")


@pytest.mark.parametrize(
    "head", [HEAD, b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n"]
)
async def test_a_connection_that_breaks_within_the_body_is_a_reset_with_its_status(head: bytes) -> None:
    exchange = await exchange_with(then_reset(head + b"so far"))
    assert (exchange.status, exchange.error) == (200, "connection_reset")


async def test_a_body_that_is_shorter_than_promised_is_a_reset() -> None:
    exchange = await exchange_with(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nok")
    assert (exchange.status, exchange.error) == (200, "connection_reset")


async def test_a_port_that_nobody_listens_on_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    exchange = await send_once(post(f"http://127.0.0.1:{port}/"))
    assert (exchange.error, exchange.address, exchange.status) == ("connection_refused", f"127.0.0.1:{port}", None)
    assert exchange.timings.connect is None


async def test_a_name_that_does_not_exist_is_a_dns_error() -> None:
    async with NameServer({}) as server:
        exchange = await send_once(post("http://missing.test/"), nameservers=[server.address])
    assert (exchange.error, exchange.address) == ("dns_error", None)


async def test_a_name_server_that_is_silent_times_out() -> None:
    async with NameServer(lambda _name: None) as server:
        exchange = await send_once(post("http://slow.test/"), nameservers=[server.address], budget=Budget(dns=0.05))
    assert (exchange.error, exchange.address) == ("timeout", None)


@pytest.mark.parametrize("url", ["http://xn--\u2488.test/", "ftp://example.com/", "http://a..b/", "http://127.1/", "x"])
async def test_a_url_that_cannot_be_used_is_told_and_not_raised(url: str) -> None:
    exchange = await send_once(post(url))
    assert (exchange.error, exchange.status, exchange.address) == ("bad_url", None, None)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


async def test_a_trusted_receiver_is_reached_over_tls(authority: Authority) -> None:
    zone = {"receiver.test": ["127.0.0.1"]}
    async with NameServer(zone) as server, RawReceiver(tls=authority.server_context("receiver.test")) as receiver:
        exchange = await send_once(
            post(receiver.url(host="receiver.test")),
            nameservers=[server.address],
            ssl_context=authority.client_context(),
        )
    assert (exchange.status, exchange.error, exchange.address) == (200, None, receiver.address)
    assert None not in (exchange.timings.dns, exchange.timings.connect, exchange.timings.tls)


async def test_a_body_without_end_is_cut_under_tls_too(authority: Authority) -> None:
    async with RawReceiver(endless(HEAD, MEGABYTES), tls=authority.server_context("127.0.0.1")) as receiver:
        exchange = await send_once(post(receiver.url()), ssl_context=authority.client_context())
    assert (exchange.status, exchange.error, exchange.truncated) == (200, None, True)


@pytest.mark.parametrize(
    ("host", "until"),
    [("127.0.0.1", datetime.now(UTC) - timedelta(days=1)), ("other.test", None), ("127.0.0.2", None)],
    ids=["expired", "other name", "other address"],
)
async def test_a_certificate_that_does_not_fit_is_a_tls_error(
    authority: Authority, host: str, until: datetime | None
) -> None:
    async with RawReceiver(tls=authority.server_context(host, until=until)) as receiver:
        exchange = await send_once(post(receiver.url()), ssl_context=authority.client_context())
    assert (exchange.status, exchange.error, exchange.address) == (None, "tls_error", receiver.address)
    assert not receiver.requests


async def test_a_certificate_of_an_unknown_authority_is_a_tls_error(authority: Authority) -> None:
    async with RawReceiver(tls=authority.server_context("127.0.0.1")) as receiver:
        exchange = await send_once(post(receiver.url()), ssl_context=None)
    assert (exchange.status, exchange.error) == (None, "tls_error")
    assert not receiver.requests


async def test_plain_http_where_tls_is_due_is_a_tls_error() -> None:
    async with RawReceiver(greeting=OK) as receiver:
        exchange = await send_once(post(receiver.url().replace("http:", "https:")))
    assert (exchange.status, exchange.error) == (None, "tls_error")


async def test_a_tls_handshake_that_hangs_times_out() -> None:
    async with RawReceiver(hang) as receiver:
        exchange = await send_once(post(receiver.url().replace("http:", "https:")), budget=Budget(connect=0.5))
    assert (exchange.error, exchange.status, exchange.address) == ("timeout", None, receiver.address)
    assert exchange.timings.connect is not None and exchange.timings.tls is None


def test_every_word_has_a_sentence_of_its_own() -> None:
    assert len(set(ERRORS.values())) == len(ERRORS)
    assert all(sentence.endswith(".") for sentence in ERRORS.values())
