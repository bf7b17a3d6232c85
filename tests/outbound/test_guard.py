"""The address table, row by row, and what holds for every address there is."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.outbound.guard import FORBIDDEN_PORTS, FORBIDDEN_V4, FORBIDDEN_V6, PUBLIC_V6, Blocked, Guard
from tests.outbound.addresses import FORBIDDEN, NO_ADDRESSES, PUBLIC

NOTHING_ALLOWED = Guard()
THIS_MACHINE = Guard((ip_network("127.0.0.0/8"),))


@pytest.mark.parametrize("address", FORBIDDEN)
def test_a_way_inside_is_forbidden(address: str) -> None:
    assert not NOTHING_ALLOWED.permits(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_the_public_internet_is_permitted(address: str) -> None:
    assert NOTHING_ALLOWED.permits(address)


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_what_is_not_plainly_an_address_is_forbidden_to_everybody(text: str) -> None:
    assert not Guard((ip_network("0.0.0.0/0"), ip_network("::/0"))).permits(text)


@given(st.sampled_from(FORBIDDEN_V4).flatmap(lambda network: st.ip_addresses(v=4, network=network)))
def test_every_address_of_a_forbidden_network_is_forbidden_however_it_is_written(address: IPv4Address) -> None:
    assert not NOTHING_ALLOWED.permits(str(address))
    assert not NOTHING_ALLOWED.permits(f"::ffff:{address}")


@given(st.ip_addresses(v=4))
def test_an_address_in_the_new_dress_is_judged_as_in_the_old(address: IPv4Address) -> None:
    assert NOTHING_ALLOWED.permits(str(address)) == NOTHING_ALLOWED.permits(f"::ffff:{address}")


@given(st.ip_addresses(v=4))
def test_no_transition_mechanism_leads_to_any_address(address: IPv4Address) -> None:
    number = int(address)
    for prefix, shift in (("64:ff9b::", 0), ("2002::", 80), ("::", 0), ("::ffff:0:0:0", 0), ("64:ff9b:1::", 0)):
        wrapped = IPv6Address(int(IPv6Address(prefix)) | number << shift)
        assert not NOTHING_ALLOWED.permits(str(wrapped)), wrapped


@given(st.ip_addresses(v=6))
def test_nothing_outside_the_assigned_space_is_permitted(address: IPv6Address) -> None:
    if address.ipv4_mapped is None and (address not in PUBLIC_V6 or any(address in bad for bad in FORBIDDEN_V6)):
        assert not NOTHING_ALLOWED.permits(str(address))


@given(st.ip_addresses())
def test_what_is_private_to_python_is_never_permitted(address: IPv4Address | IPv6Address) -> None:
    meant = getattr(address, "ipv4_mapped", None) or address
    if meant.is_private or meant.is_multicast or meant.is_reserved or meant.is_loopback:
        assert not NOTHING_ALLOWED.permits(str(address))


@given(st.text())
def test_any_text_is_answered(text: str) -> None:
    assert NOTHING_ALLOWED.permits(text) in (True, False)


def networks(version: int) -> st.SearchStrategy[IPv4Network | IPv6Network]:
    width = 32 if version == 4 else 128
    addresses = st.ip_addresses(v=version)  # type: ignore[arg-type]
    return st.builds(
        lambda address, length: ip_network(f"{address}/{length}", strict=False), addresses, st.integers(8, width)
    )


@given(networks(4).flatmap(lambda network: st.tuples(st.just(network), st.ip_addresses(v=4, network=network))))
def test_an_allowed_network_is_permitted_on_every_port(pair: tuple[IPv4Network, IPv4Address]) -> None:
    network, address = pair
    assert all(Guard((network,)).permits(str(address), port) for port in (None, 80, *FORBIDDEN_PORTS))


def test_an_allowed_network_opens_nothing_beside_itself() -> None:
    guard = Guard((ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")))
    assert guard.permits("10.1.2.3") and guard.permits("::ffff:10.1.2.3") and guard.permits("fd00:1::5")
    assert not guard.permits("10.2.0.1") and not guard.permits("127.0.0.1") and not guard.permits("fd00:2::5")


@pytest.mark.parametrize(("network", "opened"), [("127.0.0.0/8", True), ("0.0.0.0/0", True), ("127.0.0.1/32", False)])
def test_whoever_allows_this_machine_allows_both_of_its_names(network: str, opened: bool) -> None:
    assert Guard((ip_network(network),)).permits("::1") is opened


def test_all_of_the_new_space_does_not_open_the_old_one() -> None:
    assert not Guard((ip_network("::/0"),)).permits("::ffff:127.0.0.1")


@pytest.mark.parametrize("port", [22, 25, 53, 3306, 5432, 6379, 9200, 11211])
def test_some_ports_are_forbidden_on_the_public_internet_only(port: int) -> None:
    assert not NOTHING_ALLOWED.permits("93.184.216.34", port)
    assert THIS_MACHINE.permits("127.0.0.1", port)


@pytest.mark.parametrize("port", [80, 443, 8080, 8443, 3000, 50_000])
def test_ports_that_receivers_use_are_permitted(port: int) -> None:
    assert NOTHING_ALLOWED.permits("93.184.216.34", port)


@pytest.mark.parametrize("addresses", [[], ["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::1", "93.184.216.34"]])
def test_one_bad_address_or_none_at_all_condemns_the_list(addresses: list[str]) -> None:
    with pytest.raises(Blocked):
        NOTHING_ALLOWED.must_permit_all(addresses)


def test_a_list_of_public_addresses_passes() -> None:
    NOTHING_ALLOWED.must_permit_all(PUBLIC, 443)


def test_the_text_of_a_refusal_tells_nothing_about_the_address() -> None:
    with pytest.raises(Blocked) as refusal:
        NOTHING_ALLOWED.must_permit("10.1.2.3", 80)
    assert "10.1" not in str(refusal.value)
    assert (refusal.value.address, refusal.value.port) == ("10.1.2.3", 80)
