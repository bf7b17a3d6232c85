"""The receiver of the demo."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from billhook.cli.demo_receiver import HANGS_UP, PATHS, Reply, receiving, reply_to, spell
from billhook.cli.serve import open_port


@pytest.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    with open_port("127.0.0.1", 0) as listener:
        host, port = listener.getsockname()
        async with receiving(listener):
            yield host, port


@pytest.fixture
async def sender(address: tuple[str, int]) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url="http://{}:{}".format(*address), timeout=60, trust_env=False) as opened:
        yield opened


def test_every_turn_is_taken_and_then_the_first_again() -> None:
    for path, turns in PATHS.items():
        assert tuple(reply_to(path, visit) for visit in range(1, len(turns) + 1)) == turns
        assert reply_to(path, len(turns) + 1) == turns[0]


def test_it_misbehaves_in_all_ways_and_in_some_places_not_at_all() -> None:
    fates = {path: [reply.status if reply else None for reply in turns] for path, turns in PATHS.items()}
    assert {status for each in fates.values() for status in each} >= {None, 200, 204, 404, 410, 429, 500, 503}
    assert sum(all(status and status < 300 for status in each) for each in fates.values()) >= 5
    assert max(reply.seconds for turns in PATHS.values() for reply in turns if reply) > 1


@pytest.mark.parametrize(
    "path", [path for path, turns in PATHS.items() if all(turn and turn.seconds < 1 for turn in turns)]
)
async def test_what_the_table_says_is_what_happens(sender: httpx.AsyncClient, path: str) -> None:
    for reply in PATHS[path]:
        assert reply is not HANGS_UP
        answer = await sender.post(f"{path}?list=finance", json={"title": "One", "content": "two" * 1000})
        assert (answer.status_code, answer.text) == (reply.status, reply.body)
        assert answer.headers.get("retry-after") == (str(reply.retry_after) if reply.retry_after else None)


async def test_it_hangs_up_where_it_says_so(sender: httpx.AsyncClient) -> None:
    assert reply_to("/procurement/offers", 1) is HANGS_UP
    with pytest.raises(httpx.RemoteProtocolError):
        await sender.post("/procurement/offers", json={})
    assert (await sender.post("/procurement/offers", json={})).status_code == 200


async def test_what_it_does_not_know_is_not_there(sender: httpx.AsyncClient) -> None:
    assert (await sender.get("/nowhere")).status_code == 404


@pytest.mark.parametrize("said", [b"", b"hello\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"G" * 200_000])
async def test_who_does_not_speak_http_is_not_answered(address: tuple[str, int], said: bytes) -> None:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(said)
        writer.write_eof()
        assert await reader.read() == b""
    except ConnectionError:
        pass  # it has hung up already
    finally:
        writer.transport.abort()


def test_a_reply_is_spelt_as_http_wants_it() -> None:
    reply = Reply(503, "später", retry_after=5, media_type="text/plain")
    assert spell(reply).decode().split("\r\n") == [
        "HTTP/1.1 503 Service Unavailable",
        "Connection: close",
        "Server: demo-receiver",
        "Content-Type: text/plain",
        "Content-Length: 7",
        "Retry-After: 5",
        "",
        "später",
    ]
