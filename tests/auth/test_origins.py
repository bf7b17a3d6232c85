"""Where a client may come from."""

from ipaddress import ip_network

import pytest

from billhook.auth.origins import Origins, is_within
from billhook.auth.registry import ANYWHERE, read_origins


@pytest.mark.parametrize(
    ("networks", "address", "expected"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "2001:db8::1", False),
        ("2001:db8::/32", "2001:db8::1", True),
        ("2001:db8::/32", "10.1.2.3", False),
        ("192.0.2.0/24,2001:db8::/32", "2001:db8::1", True),
        ("10.0.0.0/8", "unknown", False),
    ],
)
def test_an_address_is_inside_or_outside(networks: str, address: str, expected: bool) -> None:
    assert is_within(read_origins(networks), address) is expected


@pytest.mark.parametrize("address", ["127.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "unknown"])
def test_without_networks_a_client_may_come_from_anywhere(address: str) -> None:
    assert read_origins("") is ANYWHERE
    assert is_within(ANYWHERE, address)


def test_two_origins_are_not_mistaken_for_each_other() -> None:
    here, there = Origins((ip_network("10.0.0.0/8"),)), Origins((ip_network("192.0.2.0/24"),))
    assert is_within(here, "10.0.0.1")
    assert not is_within(there, "10.0.0.1")
