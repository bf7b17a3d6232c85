"""One request out and one Exchange back, from receivers that keep to HTTP."""

import asyncio
import gzip
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from billhook.outbound import client
from billhook.outbound.client import TooLate
from billhook.outbound.request import Outgoing
from tests.outbound.receivers import GOODBYE, OK, RawReceiver, drip, hang_up
from tests.outbound.senders import BODY, get, post, send_once, sending


def answering_once_per_connection() -> RawReceiver:
    """The first request of a connection is answered; at the second one it is closed without a word."""
    seen: set[StreamWriter] = set()

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        if writer in seen:
            return await hang_up(reader, writer)
        seen.add(writer)
        writer.write(OK)

    return RawReceiver(answer)


async def test_a_post_goes_out_exactly_as_it_was_made() -> None:
    headers = (("Content-Type", "application/json"), ("x-Team", "a"), ("Authorization", "Bearer x"), ("X-team", "b"))
    async with RawReceiver() as receiver:
        exchange = await send_once(Outgoing("POST", receiver.url("/hook"), headers, BODY))
    head = (
        f"POST /hook HTTP/1.1\r\nHost: {receiver.address}\r\nContent-Type: application/json\r\nx-Team: a\r\n"
        f"Authorization: Bearer x\r\nX-team: b\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    assert receiver.requests == [head.encode() + BODY]
    assert (exchange.status, exchange.error, exchange.body, exchange.truncated) == (200, None, b"ok", False)


async def test_a_get_has_no_body_and_says_nothing_about_one() -> None:
    async with RawReceiver() as receiver:
        await send_once(get(receiver.url("/hook?title=a%20b")))
    assert receiver.requests == [f"GET /hook?title=a%20b HTTP/1.1\r\nHost: {receiver.address}\r\n\r\n".encode()]


async def test_a_post_without_a_type_gets_none() -> None:
    async with RawReceiver() as receiver:
        await send_once(Outgoing("POST", receiver.url("/"), (), b"x"))
    assert receiver.requests == [f"POST / HTTP/1.1\r\nHost: {receiver.address}\r\nContent-Length: 1\r\n\r\nx".encode()]


async def test_nothing_is_sent_after_the_last_moment_for_it() -> None:
    async with RawReceiver() as receiver, sending() as sender:
        with pytest.raises(TooLate):
            await sender.send(post(receiver.url()), not_after=time.monotonic() - 0.001)
        assert receiver.requests == []
        assert (await sender.send(post(receiver.url()), not_after=time.monotonic() + 60)).status == 200


async def test_a_second_try_on_a_fresh_connection_is_not_made_after_the_last_moment_either() -> None:
    """The receiver has closed a pooled connection while this process stood still."""
    async with answering_once_per_connection() as receiver, sending() as sender:
        await sender.send(post(receiver.url()))
        assert (await sender.send(post(receiver.url()), not_after=time.monotonic() + 60)).status == 200
        assert len(receiver.requests) == 3, "asked again"
        moments = iter([0.0, 1.0])
        with pytest.MonkeyPatch.context() as patch, pytest.raises(TooLate):
            patch.setattr(client, "time", SimpleNamespace(monotonic=lambda: next(moments)))
            await sender.send(post(receiver.url()), not_after=0.5)
        assert len(receiver.requests) == 4, "and not again"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/a%20b",
        "/a+b?q=c+d&q=%2B",
        "/%e2%82%ac/%E2%82%AC?existing=1&title=a%20b&content=%C3%BC%0A",
        "/../a/./b//c",
        "/a;b=c,d/'(e)*!$&@:~?x=[1]{2}|^`<>\"",
        "/%",
        "/%zz?%",
        "/?a&&b==&c",
    ],
)
async def test_the_bytes_of_a_url_are_kept(path: str) -> None:
    async with RawReceiver() as receiver:
        await send_once(get(receiver.url(path)))
    assert receiver.requests[0].split(b" ")[1] == path.encode()


@pytest.mark.parametrize("status", [200, 201, 204, 299, 302, 400, 404, 410, 429, 500, 503, 599, 999])
async def test_a_status_is_no_error(status: int) -> None:
    async with RawReceiver(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode()) as receiver:
        exchange = await send_once(post(receiver.url()))
    assert (exchange.status, exchange.error, exchange.body) == (status, None, b"")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    answer = f"HTTP/1.1 {status} X\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"
    async with RawReceiver(answer.encode()) as receiver:
        exchange = await send_once(post(receiver.url()))
    assert (exchange.status, exchange.error, exchange.address) == (status, None, receiver.address)
    assert exchange.headers == (("location", "http://169.254.169.254/latest"), ("content-length", "0"))
    assert len(receiver.requests) == 1


async def test_only_harmless_headers_are_kept_and_made_storable() -> None:
    head = b"HTTP/1.1 200 OK\r\nSet-Cookie: session=1\r\nX-Request-Id: r1\r\nServer: a\x01\x7fb\xff\xc3\xbc\r\n"
    head += b"RETRY-AFTER: " + b"9" * 3000 + b"\r\nX-Other: 1\r\nContent-Length: 0\r\n\r\n"
    async with RawReceiver(head) as receiver:
        exchange = await send_once(post(receiver.url()))
    assert exchange.headers == (
        ("x-request-id", "r1"),
        ("server", "ab\ufffdü"),
        ("retry-after", "9" * 1024),
        ("content-length", "0"),
    )


async def test_a_cookie_is_not_sent_back() -> None:
    async with RawReceiver(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n") as receiver:
        async with sending() as sender:
            await sender.send(get(receiver.url()))
            await sender.send(get(receiver.url()))
    assert receiver.requests[0] == receiver.requests[1]


async def test_a_compressed_body_stays_compressed() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    async with RawReceiver(head + bomb) as receiver:
        exchange = await send_once(post(receiver.url()))
    assert exchange.body == bomb
    assert not exchange.truncated


@pytest.mark.parametrize(("size", "kept"), [(16_384, 16_384), (16_385, 16_384), (60_000, 16_384)])
async def test_a_body_is_kept_in_part_and_its_connection_whole(size: int, kept: int) -> None:
    async with RawReceiver(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size) as receiver:
        async with sending() as sender:
            exchange = await sender.send(post(receiver.url()))
            await sender.send(post(receiver.url()))
    assert (exchange.body, exchange.truncated, exchange.error) == (b"x" * kept, size > kept, None)
    assert receiver.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\nTrailer: 1\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.1 200\r\nConnection: close\r\n\r\nok",
        GOODBYE,
    ],
)
async def test_every_shape_of_an_answer_is_read(answer: bytes) -> None:
    async with RawReceiver(answer) as receiver:
        exchange = await send_once(post(receiver.url()))
    assert (exchange.status, exchange.error, exchange.body) == (200, None, b"ok")


async def test_an_answer_may_come_byte_by_byte() -> None:
    async with RawReceiver(drip(OK)) as receiver:
        exchange = await send_once(post(receiver.url()))
    assert (exchange.status, exchange.error, exchange.body) == (200, None, b"ok")


async def test_a_change_of_protocol_is_an_answer_and_ends_the_connection() -> None:
    answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
    async with RawReceiver(answer) as receiver:
        async with sending() as sender:
            exchange = await sender.send(post(receiver.url()))
            await sender.send(post(receiver.url()))
    assert (exchange.status, exchange.error) == (101, None)
    assert receiver.connections == 2


async def test_a_connection_is_used_again_and_the_timings_say_so() -> None:
    async with RawReceiver() as receiver, sending() as sender:
        first, second = [await sender.send(post(receiver.url())) for _ in range(2)]
    assert receiver.connections == 1
    assert first.address == second.address == receiver.address
    assert (first.timings.dns, first.timings.tls) == (None, None)
    assert first.timings.connect is not None and second.timings.connect is None
    for exchange in (first, second):
        assert exchange.timings.first_byte is not None
        assert (first.timings.connect or 0) <= first.timings.total
        assert exchange.timings.first_byte <= exchange.timings.total


@pytest.mark.parametrize("make", [get, post])
async def test_a_pooled_connection_that_the_receiver_closed_is_not_its_failure(make: Callable[[str], Outgoing]) -> None:
    async with answering_once_per_connection() as receiver, sending() as sender:
        exchanges = [await sender.send(make(receiver.url())) for _ in range(2)]
    assert [exchange.status for exchange in exchanges] == [200, 200]
    assert exchanges[1].timings.connect is not None
    assert (receiver.connections, len(receiver.requests)) == (2, 3)


async def test_the_second_try_takes_no_other_pooled_connection() -> None:
    async with answering_once_per_connection() as receiver, sending() as sender:
        await asyncio.gather(*(sender.send(post(receiver.url())) for _ in range(5)))
        exchange = await sender.send(post(receiver.url()))
    assert (exchange.status, exchange.error) == (200, None)
    assert (receiver.connections, len(receiver.requests)) == (6, 7)


@pytest.mark.parametrize("make", [get, post])
async def test_a_new_connection_that_the_receiver_closed_is_its_failure(make: Callable[[str], Outgoing]) -> None:
    async with RawReceiver(hang_up) as receiver:
        exchange = await send_once(make(receiver.url()))
    assert (exchange.status, exchange.error, exchange.address) == (None, "connection_reset", receiver.address)
    assert (receiver.connections, len(receiver.requests)) == (1, 1)


async def test_a_receiver_that_closes_again_is_tried_no_third_time() -> None:
    first = True

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal first
        if not first:
            return await hang_up(reader, writer)
        first = False
        writer.write(OK)

    async with RawReceiver(answer) as receiver, sending() as sender:
        await sender.send(post(receiver.url()))
        exchange = await sender.send(post(receiver.url()))
    assert exchange.error == "connection_reset"
    assert (receiver.connections, len(receiver.requests)) == (2, 3)


async def test_a_pooled_connection_that_broke_within_an_answer_is_a_failure() -> None:
    first = True

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal first
        writer.write(OK if first else b"HTTP/1.1 2")
        if not first:
            await hang_up(reader, writer)
        first = False

    async with RawReceiver(answer) as receiver, sending() as sender:
        await sender.send(post(receiver.url()))
        exchange = await sender.send(post(receiver.url()))
    assert (exchange.status, exchange.error) == (None, "connection_reset")
    assert (receiver.connections, len(receiver.requests)) == (1, 2)


async def test_a_pooled_connection_that_spoke_unasked_is_not_used() -> None:
    idle = asyncio.Event()

    async def answer(_reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(OK)
        await idle.wait()
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    async with RawReceiver(answer) as receiver, sending() as sender:
        await sender.send(post(receiver.url()))
        idle.set()
        for _ in range(10):  # turns of the loop, in which the message arrives
            await asyncio.sleep(0)
        exchange = await sender.send(post(receiver.url()))
    assert (exchange.status, receiver.connections) == (200, 2)


async def test_an_attempt_can_be_cancelled_and_lets_go_of_the_receiver() -> None:
    arrived, left = asyncio.Event(), asyncio.Event()

    async def answer(reader: StreamReader, _writer: StreamWriter) -> None:
        arrived.set()
        await reader.read()
        left.set()

    async with RawReceiver(answer) as receiver, sending() as sender:
        attempt = asyncio.create_task(sender.send(post(receiver.url())))
        await arrived.wait()
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await left.wait()


async def test_no_proxy_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RawReceiver() as receiver, RawReceiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url(""))
        exchange = await send_once(post(receiver.url()))
    assert exchange.status == 200
    assert not proxy.connections


async def test_attempts_at_the_same_time_do_not_mix_their_notes() -> None:
    async with RawReceiver() as good, RawReceiver(hang_up) as bad, sending() as sender:
        exchanges = await asyncio.gather(*(sender.send(post(receiver.url())) for receiver in (good, bad) * 10))
    assert {(exchange.address, exchange.status, exchange.error) for exchange in exchanges} == {
        (good.address, 200, None),
        (bad.address, None, "connection_reset"),
    }


async def test_a_sender_that_sent_nothing_can_be_closed() -> None:
    async with sending():
        pass
