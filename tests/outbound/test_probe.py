"""How far one gets to a receiver, told from a real name server and real sockets."""

import asyncio
import socket
from ipaddress import ip_network

import pytest

from billhook.outbound.guard import Guard
from billhook.outbound.probe import Reach, probe
from billhook.outbound.resolver import Resolver
from tests.outbound.dns_server import NameServer

THIS_MACHINE = Guard((ip_network("127.0.0.0/8"),))


async def reach(server: NameServer, host: str, port: int, guard: Guard = THIS_MACHINE) -> Reach:
    resolver = Resolver(guard, nameservers=[server.address], deadline_seconds=0.2)
    try:
        return await probe(resolver, host, port)
    finally:
        await resolver.close()


async def test_who_listens_is_reached_and_hears_nothing() -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait(await reader.read())
        writer.close()

    receiver = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = receiver.sockets[0].getsockname()[1]
    async with receiver, NameServer({"here.test": ["127.0.0.1"]}) as server:
        assert await reach(server, "here.test", port) is Reach.REACHED
        assert await heard.get() == b""


async def test_one_address_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with NameServer({"two.test": ["127.0.0.2", "127.0.0.1"]}) as server:
            assert await reach(server, "two.test", listening.getsockname()[1]) is Reach.REACHED


async def test_who_does_not_listen_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    async with NameServer({"here.test": ["127.0.0.1"]}) as server:
        assert await reach(server, "here.test", port) is Reach.REFUSED


async def test_what_the_guard_forbids_is_not_dialled() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.0)
        async with NameServer({"here.test": ["127.0.0.1"]}) as server:
            assert await reach(server, "here.test", listening.getsockname()[1], Guard()) is Reach.BLOCKED
        with pytest.raises(BlockingIOError):
            listening.accept()


async def test_a_name_that_is_not_there_is_told_from_a_server_that_is_silent() -> None:
    async with NameServer({}) as server:
        assert await reach(server, "nobody.test", 80) is Reach.NO_NAME
    async with NameServer(lambda _: None) as silent:
        assert await reach(silent, "nobody.test", 80) is Reach.NO_DNS
