"""The guard of outgoing requests against a table of its own: every edge, any address, any spelling of one."""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.errors import InvalidParameters
from billhook.outbound.guard import Guard
from billhook.outbound.target import BadUrl, parse_target
from billhook.providers.urls import sendable, valid_url
from tests.outbound.special_purpose import REGISTRY, V4, V6, edges, may_be_reached, number
from tests.tally import tally

GUARD = Guard()
NAME = "addresses"


def written(width: int, value: int) -> str:
    family = socket.AF_INET if width == V4 else socket.AF_INET6
    return socket.inet_ntop(family, value.to_bytes(width // 8, "big"))


def judge(place: str, text: str, *, is_public: bool) -> None:
    """The guard must come to the same as the table, and a leak is counted when it lets somebody inside."""
    permitted = GUARD.permits(text, 443)
    is_leak = permitted and not is_public
    told = "permitted" if permitted else "forbidden"
    tally.judged(NAME, place, what=told, unit="addresses and hosts", places="kinds", is_leak=is_leak)
    assert permitted == is_public, text


@pytest.mark.parametrize(("width", "value"), edges(), ids=lambda each: str(each))
def test_the_edges_of_every_range_are_where_the_registries_have_them(width: int, value: int) -> None:
    judge("edges", written(width, value), is_public=may_be_reached(width, value))


RANGES = st.sampled_from(REGISTRY).flatmap(
    lambda each: st.tuples(st.just(each.version), st.integers(each.first, each.last))
)
ANY_V4 = st.tuples(st.just(V4), st.integers(0, 2**32 - 1))
ANY_V6 = st.tuples(st.just(V6), st.integers(0, 2**128 - 1) | st.integers(0x2 << 124, (0x4 << 124) - 1))
NEAR = st.sampled_from(edges()).flatmap(
    lambda edge: st.tuples(st.just(edge[0]), st.integers(max(0, edge[1] - 300), min((1 << edge[0]) - 1, edge[1] + 300)))
)
ANY = st.one_of(RANGES, ANY_V4, ANY_V6, NEAR)


@tally.settings(400)
@given(address=ANY)
def test_any_address_is_judged_as_the_registries_have_it(address: tuple[int, int]) -> None:
    judge("any", written(*address), is_public=may_be_reached(*address))


def dressed(value: int) -> Iterator[tuple[str, int]]:
    """An IPv4 address inside of IPv6 addresses: by name, and whether it is the same address or another way to it."""
    yield "mapped", 0xFFFF << 32 | value
    yield "compatible", value
    yield "translated", 0xFFFF << 48 | value
    yield "NAT64", number("64:ff9b::")[1] | value
    yield "local NAT64, /96", number("64:ff9b:1::")[1] | value
    yield "local NAT64, /48", number("64:ff9b:1::")[1] | (value >> 16) << 64 | (value & 0xFFFF) << 40  # RFC 6052 §2.2
    yield "6to4", number("2002::")[1] | value << 80
    yield "Teredo server", number("2001::")[1] | value << 64
    yield "Teredo client", number("2001::")[1] | value ^ 0xFFFF_FFFF
    yield "ISATAP, link local", number("fe80::5efe:0:0")[1] | value


@tally.settings(100)
@given(value=st.one_of(ANY_V4, RANGES.filter(lambda each: each[0] == V4)).map(lambda each: each[1]))
def test_no_dress_of_an_address_leads_inside(value: int) -> None:
    for dress, wrapped in dressed(value):
        judge(dress, written(V6, wrapped), is_public=dress == "mapped" and may_be_reached(V4, value))


def spellings_v4(value: int) -> Iterator[str]:
    a, b, c, d = value.to_bytes(4, "big")
    yield from (f"{a}.{b}.{c}.{d}", f"{a}.{b}.{c}.{d}.", str(value), hex(value), f"0{value:o}", f"{value:#010X}")
    yield from (f"{a}.{b}.{c << 8 | d}", f"{a}.{b << 16 | c << 8 | d}", f"{a:#x}.{b:#x}.{c:#x}.{d:#x}")
    yield from (f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"{a:03}.{b:03}.{c:03}.{d:03}", f"{a}.{b}.{c}.{d + 256}")
    yield from (f"{a}%2e{b}%2e{c}%2e{d}", f"{a}。{b}。{c}。{d}", f"{a}．{b}．{c}．{d}", f"{a}.{b}.{c}.0x{d:x}")
    yield from (f"{a}.{b}.{c}.{d}".translate(FULL_WIDTH), f"{a}.{b}.{c}.{d}".translate(CIRCLED), f"{a}.{b}.{c}.{d}%00")
    yield from (f"[{a}.{b}.{c}.{d}]", f"[::ffff:{a}.{b}.{c}.{d}]", f"[::ffff:{value >> 16:x}:{value & 0xFFFF:x}]")
    yield from (f"{a}.{b}.{c}.{d}@example.com", f"example.com@{a}.{b}.{c}.{d}", f"example.com#@{a}.{b}.{c}.{d}")
    yield from (
        f"example.com\\@{a}.{b}.{c}.{d}",
        f"{a}.{b}.{c}.{d}:443",
        f"{a}.{b}.{c}.{d}:443:80",
        f" {a}.{b}.{c}.{d}",
    )


FULL_WIDTH = {ord("0") + digit: 0xFF10 + digit for digit in range(10)}
CIRCLED = {ord("0"): 0x24EA} | {ord("1") + digit: 0x2460 + digit for digit in range(9)}


def spellings_v6(value: int) -> Iterator[str]:
    address = IPv6Address(value)
    yield from (
        f"[{address}]",
        f"[{address.exploded}]",
        f"[{str(address).upper()}]",
        f"{address}",
        f"[{address}%25eth0]",
    )
    yield from (f"[{address}%eth0]", f"[{address}", f"[v1.{address}]", f"[{address}]:443", f"[{address}].example.com")
    head, tail = address.exploded.rsplit(":", 2)[0], IPv4Address(value & 0xFFFF_FFFF)
    yield f"[{head}:{tail}]"


def spellings(width: int, value: int) -> Iterator[str]:
    return spellings_v4(value) if width == V4 else spellings_v6(value)


def destination(url: str) -> str | None:
    """The host that a provider of this URL would be dialled at, or None when the URL is refused somewhere."""
    try:
        return parse_target(sendable(valid_url(url))).raw_host
    except (InvalidParameters, BadUrl):
        return None


def is_read_as_an_address(host: str) -> bool:
    """By the C library, which is what reads names in the end: it knows octal, hexadecimal and short ones."""
    try:
        socket.inet_aton(host)
    except (OSError, UnicodeEncodeError):
        return False
    return True


def judge_host(place: str, url: str) -> None:
    """Where it leads is one plain address, judged like any other, or a name that nobody takes for an address."""
    host = destination(url)
    if host is None:
        tally.judged(NAME, place, what="no URL", unit="addresses and hosts", places="kinds")
    elif ":" in host or host.replace(".", "").isdigit():
        judge(place, host, is_public=may_be_reached(*number(host)))
    else:
        is_leak = is_read_as_an_address(host)
        tally.judged(NAME, place, what="a name", unit="addresses and hosts", places="kinds", is_leak=is_leak)
        assert not is_leak, url


@tally.settings(80)
@given(address=ANY)
def test_however_an_address_is_spelt_in_a_url_it_is_refused_or_judged_for_what_it_is(address: tuple[int, int]) -> None:
    for spelling in spellings(*address):
        judge_host("spellings", f"http://{spelling}/")
        host = destination(f"http://{spelling}/")
        if host is not None and "@" not in spelling and "example" not in spelling:
            assert number(host.removesuffix(".")) in (address, (V6, 0xFFFF << 32 | address[1])), spelling


FAVOURITES = [
    "localhost",
    "127.1",
    "0",
    "0x7f.1",
    "[::]",
    "[::1]",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "017700000001",
    "2130706433",
]


@pytest.mark.parametrize(("host", "scheme"), [*product(FAVOURITES, ["http", "https"])])
def test_the_favourite_spellings_of_this_machine_are_never_a_permitted_address(host: str, scheme: str) -> None:
    judge_host("spellings", f"{scheme}://{host}/")


PIECES = st.sampled_from(
    [*"0123456789.:[]@%/\\#?xX-_", "0x", "::", "ffff", "127", "%2e", "。", "．", "①", "\u00ad", "\u200d"]
)


@tally.settings(300)
@given(host=st.lists(PIECES, min_size=1, max_size=12).map("".join), text=st.text(max_size=6))
def test_whatever_stands_for_a_host_leads_to_a_judged_address_or_a_plain_name(host: str, text: str) -> None:
    judge_host("any host", f"http://{host}/{text}")
    judge_host("any host", f"http://{text}{host}/")


@tally.settings(200)
@given(text=st.text() | st.lists(PIECES).map("".join))
def test_whatever_is_not_an_address_to_the_c_library_is_not_permitted(text: str) -> None:
    permitted = GUARD.permits(text)
    try:
        is_public = may_be_reached(*number(text))
    except (OSError, ValueError):
        is_public = False
    told = "permitted" if permitted else "forbidden"
    is_leak = permitted and not is_public
    tally.judged(NAME, "any text", what=told, unit="addresses and hosts", places="kinds", is_leak=is_leak)
    assert permitted == is_public
