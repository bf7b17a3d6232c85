"""Names are looked up at a real name server, and every address passes the guard or none does."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network

import aiodns
import pytest

from billhook.outbound.guard import Blocked, Guard
from billhook.outbound.resolver import FLAGS, MOST_ADDRESSES, Resolver
from tests.outbound.addresses import FORBIDDEN
from tests.outbound.dns_server import NameServer

THIS_MACHINE = Guard((ip_network("127.0.0.0/8"),))
V4, V6 = "93.184.216.34", "2606:4700:4700::1111"


@asynccontextmanager
async def resolving(server: NameServer, guard: Guard = Guard(), seconds: float = 2.0) -> AsyncIterator[Resolver]:  # noqa: B008
    resolver = Resolver(guard, nameservers=[server.address], deadline_seconds=seconds)
    yield resolver
    await resolver.close()


async def test_a_name_has_the_addresses_of_both_families() -> None:
    async with NameServer({"both.test": [V4, V6]}) as server, resolving(server) as resolver:
        results = await resolver.resolve("both.test", 443)
    assert {(result["host"], result["family"]) for result in results} == {(V4, socket.AF_INET), (V6, socket.AF_INET6)}
    assert {(result["hostname"], result["port"]) for result in results} == {("both.test", 443)}


@pytest.mark.parametrize("address", FORBIDDEN)
async def test_a_name_that_leads_inside_is_blocked(address: str) -> None:
    async with NameServer({"inside.test": [address]}) as server, resolving(server) as resolver:
        with pytest.raises(Blocked):
            await resolver.resolve("inside.test", 80)


@pytest.mark.parametrize("addresses", [[V4, "10.0.0.1"], ["10.0.0.1", V4], [V4, V6, "::1"], [V4, "fe80::1"]])
async def test_one_bad_address_condemns_the_name(addresses: list[str]) -> None:
    async with NameServer({"mixed.test": addresses}) as server, resolving(server) as resolver:
        with pytest.raises(Blocked):
            await resolver.resolve("mixed.test", 80)


async def test_a_bad_address_of_the_family_that_was_not_asked_for_condemns_it_too() -> None:
    async with NameServer({"mixed.test": [V4, "::1"]}) as server, resolving(server) as resolver:
        with pytest.raises(Blocked):
            await resolver.resolve("mixed.test", 80, socket.AF_INET)


async def test_a_forbidden_port_is_blocked_like_a_forbidden_address() -> None:
    async with NameServer({"public.test": [V4]}) as server, resolving(server) as resolver:
        with pytest.raises(Blocked):
            await resolver.resolve("public.test", 6379)


async def test_names_of_this_machine_work_where_it_is_allowed() -> None:
    async with NameServer({}) as server, resolving(server, THIS_MACHINE) as resolver:
        results = await resolver.resolve("localhost", 80)
    assert {result["host"] for result in results} <= {"127.0.0.1", "::1"}
    assert results and not server.asked


async def test_names_of_this_machine_are_blocked_where_it_is_not() -> None:
    async with NameServer({}) as server, resolving(server) as resolver:
        with pytest.raises(Blocked):
            await resolver.resolve("localhost", 80)


@pytest.mark.parametrize("name", ["missing.test", "intranet"])
async def test_an_unknown_name_is_asked_for_as_it_is_and_fails(name: str) -> None:
    async with NameServer({}) as server, resolving(server) as resolver:
        with pytest.raises(OSError) as failure:
            await resolver.resolve(name, 80)
    assert not isinstance(failure.value, Blocked | TimeoutError)
    assert set(server.asked) == {name}


async def test_no_search_domain_is_tried() -> None:
    """Where the machine has one; what is switched off is switched off in c-ares, so it is asked."""
    async with NameServer({"intranet.corp.test": ["10.0.0.1"]}) as server:
        dns = aiodns.DNSResolver([server.address], flags=FLAGS, domains=["corp.test"])
        with pytest.raises(aiodns.error.DNSError):
            await dns.getaddrinfo("intranet")
        await dns.close()
    assert set(server.asked) == {"intranet"}


async def test_a_silent_name_server_is_given_up() -> None:
    async with NameServer(lambda _name: None) as server, resolving(server, seconds=0.05) as resolver:
        with pytest.raises(TimeoutError):
            await resolver.resolve("slow.test", 80)


async def test_a_name_that_cannot_be_one_fails() -> None:
    async with NameServer({}) as server, resolving(server) as resolver:
        with pytest.raises(OSError):
            await resolver.resolve("a" * 64 + ".test", 80)


async def test_a_name_with_many_addresses_is_vetted_whole_and_dialled_in_part() -> None:
    many = [f"93.184.216.{number}" for number in range(1, 25)]
    async with (
        NameServer({"many.test": many, "trap.test": [*many, "10.0.0.1"]}) as server,
        resolving(server) as resolver,
    ):
        assert len(await resolver.resolve("many.test", 80)) == MOST_ADDRESSES
        with pytest.raises(Blocked):
            await resolver.resolve("trap.test", 80)


async def test_a_lookup_can_be_cancelled() -> None:
    async with NameServer(lambda _name: None) as server, resolving(server) as resolver:
        task = asyncio.create_task(resolver.resolve("slow.test", 80))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
