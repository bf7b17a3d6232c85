"""Nothing is dialled that the guard forbids, however the address came about."""

from ipaddress import ip_network

import pytest
from structlog.testing import capture_logs

from billhook.outbound.guard import Guard
from billhook.outbound.request import Exchange
from tests.outbound.addresses import FORBIDDEN
from tests.outbound.dns_server import NameServer
from tests.outbound.receivers import GOODBYE, RawReceiver
from tests.outbound.senders import NOWHERE, get, post, send_once, sending


def assert_blocked(exchange: Exchange) -> None:
    assert (exchange.error, exchange.status, exchange.address) == ("blocked_address", None, None)
    assert (exchange.timings.connect, exchange.timings.tls, exchange.body) == (None, None, b"")


@pytest.mark.parametrize("address", FORBIDDEN)
async def test_a_forbidden_address_in_a_url_is_not_dialled(address: str) -> None:
    literal = f"[{address}]" if ":" in address else address
    assert_blocked(await send_once(post(f"http://{literal}/"), NOWHERE))
    assert_blocked(await send_once(get(f"https://{literal}:8443/"), NOWHERE))


@pytest.mark.parametrize("address", FORBIDDEN)
async def test_a_name_of_a_forbidden_address_is_not_dialled(address: str) -> None:
    async with NameServer({"inside.test": [address]}) as server:
        assert_blocked(await send_once(post("http://inside.test/"), NOWHERE, nameservers=[server.address]))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "a.localhost"])
async def test_a_receiver_on_this_machine_hears_nothing(host: str) -> None:
    async with RawReceiver() as receiver:
        assert_blocked(await send_once(post(receiver.url(host=host)), NOWHERE))
    assert not receiver.connections


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "１２７.0.0.1"])
async def test_a_receiver_on_this_machine_is_reached_where_it_is_allowed(host: str) -> None:
    async with RawReceiver() as receiver:
        exchange = await send_once(post(receiver.url(host=host)))
    assert (exchange.status, len(receiver.requests)) == (200, 1)


async def test_one_bad_address_among_good_ones_blocks_the_name() -> None:
    async with RawReceiver() as receiver, NameServer({"mixed.test": ["127.0.0.1", "10.0.0.1"]}) as server:
        assert_blocked(await send_once(post(receiver.url(host="mixed.test")), nameservers=[server.address]))
    assert not receiver.connections


@pytest.mark.parametrize("port", [22, 25, 6379])
async def test_a_forbidden_port_of_a_public_address_is_not_dialled(port: int) -> None:
    assert_blocked(await send_once(post(f"http://93.184.216.34:{port}/"), NOWHERE))


class Rebinding:
    """A name that is harmless when it is first looked up, and leads inside ever after."""

    def __init__(self, first: str, then: str) -> None:
        self._first, self._then = first, then
        self._lookups = 0

    def __call__(self, _name: str) -> list[str]:
        self._lookups += 1
        return [self._first if self._lookups <= 2 else self._then]  # one lookup asks for A and for AAAA


async def test_a_name_that_changes_its_address_is_blocked_from_then_on() -> None:
    outside, inside = "127.0.0.2", "127.0.0.1"
    guard = Guard((ip_network(outside),))
    async with NameServer(Rebinding(outside, inside)) as server, RawReceiver(host=inside) as target:
        async with RawReceiver(GOODBYE, host=outside, port=target.port) as receiver:
            url = target.url(host="rebinding.test")
            first = await send_once(post(url), guard, nameservers=[server.address])
            second = await send_once(post(url), guard, nameservers=[server.address])
    assert (first.status, first.address) == (200, receiver.address)
    assert_blocked(second)
    assert not target.connections


async def test_the_address_that_was_vetted_is_the_one_that_is_dialled() -> None:
    """Within the few seconds that a lookup is remembered, a changed name changes nothing."""
    outside, inside = "127.0.0.2", "127.0.0.1"
    guard = Guard((ip_network(outside),))
    async with NameServer(Rebinding(outside, inside)) as server, RawReceiver(host=inside) as target:
        async with RawReceiver(GOODBYE, host=outside, port=target.port) as receiver:
            async with sending(guard, nameservers=[server.address]) as sender:
                exchanges = [await sender.send(post(target.url(host="rebinding.test"))) for _ in range(3)]
    assert {exchange.address for exchange in exchanges} == {receiver.address}
    assert (receiver.connections, target.connections, len(server.asked)) == (3, 0, 2)


async def test_the_operator_learns_of_a_blocked_address_and_of_no_secret() -> None:
    async with NameServer({"inside.test": ["10.1.2.3"]}) as server:
        with capture_logs() as lines:
            await send_once(post("http://inside.test/s3cret/path?token=s3cret"), NOWHERE, nameservers=[server.address])
    assert [(line["host"], line["address"]) for line in lines] == [("inside.test", "10.1.2.3")]
    assert "s3cret" not in str(lines)


async def test_nothing_else_is_logged() -> None:
    async with RawReceiver(b"nonsense\r\n\r\n") as receiver:
        with capture_logs() as lines:
            await send_once(post(receiver.url()))
            await send_once(post("http://a..b/s3cret"))
    assert lines == []
