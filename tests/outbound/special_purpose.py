"""The special-purpose addresses of IPv4 and IPv6 after IANA's registries, as ranges of plain numbers.

Written from the registries (RFC 6890 and what has changed them since), the multicast spaces and the unicast space that
IANA has given out; not from the guard, which it judges. `True` is what a registry calls globally reachable.
"""

import socket
from dataclasses import dataclass

V4, V6 = 32, 128


@dataclass(frozen=True)
class Range:
    version: int  # in bits
    first: int
    last: int
    is_reachable: bool
    name: str


def number(text: str) -> tuple[int, int]:
    """The width of an address and its number, read by the C library and not by Python."""
    family, width = (socket.AF_INET6, V6) if ":" in text else (socket.AF_INET, V4)
    return width, int.from_bytes(socket.inet_pton(family, text), "big")


def _range(network: str, is_reachable: bool, name: str) -> Range:
    text, _, length = network.partition("/")
    width, first = number(text)
    return Range(width, first, first | (1 << width - int(length)) - 1, is_reachable, name)


REGISTRY = [
    _range("0.0.0.0/8", False, "this network"),
    _range("0.0.0.0/32", False, "this host on this network"),
    _range("10.0.0.0/8", False, "private use"),
    _range("100.64.0.0/10", False, "shared address space"),
    _range("127.0.0.0/8", False, "loopback"),
    _range("169.254.0.0/16", False, "link local"),
    _range("172.16.0.0/12", False, "private use"),
    _range("192.0.0.0/24", False, "IETF protocol assignments"),
    _range("192.0.0.0/29", False, "IPv4 service continuity"),
    _range("192.0.0.8/32", False, "IPv4 dummy address"),
    _range("192.0.0.9/32", True, "port control protocol anycast"),
    _range("192.0.0.10/32", True, "TURN anycast"),
    _range("192.0.0.170/32", False, "NAT64 and DNS64 discovery"),
    _range("192.0.0.171/32", False, "NAT64 and DNS64 discovery"),
    _range("192.0.2.0/24", False, "documentation"),
    _range("192.31.196.0/24", True, "AS112"),
    _range("192.52.193.0/24", True, "AMT"),
    _range("192.88.99.0/24", False, "6to4 relay anycast, deprecated"),
    _range("192.88.99.2/32", False, "6a44 relay anycast"),
    _range("192.168.0.0/16", False, "private use"),
    _range("192.175.48.0/24", True, "direct delegation AS112"),
    _range("198.18.0.0/15", False, "benchmarking"),
    _range("198.51.100.0/24", False, "documentation"),
    _range("203.0.113.0/24", False, "documentation"),
    _range("224.0.0.0/4", False, "multicast"),
    _range("240.0.0.0/4", False, "reserved"),
    _range("255.255.255.255/32", False, "limited broadcast"),
    _range("::/128", False, "unspecified"),
    _range("::1/128", False, "loopback"),
    _range("::/96", False, "IPv4-compatible, deprecated"),
    _range("::ffff:0:0:0/96", False, "IPv4-translated"),
    _range("64:ff9b::/96", True, "NAT64"),
    _range("64:ff9b:1::/48", False, "local NAT64"),
    _range("100::/64", False, "discard only"),
    _range("100:0:0:1::/64", False, "dummy prefix"),
    _range("2001::/23", False, "IETF protocol assignments"),
    _range("2001::/32", False, "Teredo"),
    _range("2001:1::1/128", True, "port control protocol anycast"),
    _range("2001:1::2/128", True, "TURN anycast"),
    _range("2001:1::3/128", True, "DNS-SD SRP anycast"),
    _range("2001:2::/48", False, "benchmarking"),
    _range("2001:3::/32", True, "AMT"),
    _range("2001:4:112::/48", True, "AS112"),
    _range("2001:10::/28", False, "ORCHID, deprecated"),
    _range("2001:20::/28", True, "ORCHIDv2"),
    _range("2001:30::/28", True, "drone remote ids"),
    _range("2001:db8::/32", False, "documentation"),
    _range("2002::/16", False, "6to4"),
    _range("2620:4f:8000::/48", True, "direct delegation AS112"),
    _range("3fff::/20", False, "documentation"),
    _range("5f00::/16", False, "segment routing"),
    _range("fc00::/7", False, "unique local"),
    _range("fe80::/10", False, "link local"),
    _range("fec0::/10", False, "site local, deprecated"),
    _range("ff00::/8", False, "multicast"),
]
MAPPED = _range("::ffff:0:0/96", False, "IPv4-mapped")
ALLOCATED_V6 = _range("2000::/3", True, "global unicast")

# Reachable after the registry, and yet not for us: services of the network itself, and a way around through NAT64.
REFUSED_ALL_THE_SAME = [
    _range("192.0.0.0/24", False, "IETF protocol assignments"),
    _range("64:ff9b::/96", False, "NAT64"),
    _range("2001::/23", False, "IETF protocol assignments"),
]


def _covers(range: Range, width: int, value: int) -> bool:
    return range.version == width and range.first <= value <= range.last


def may_be_reached(width: int, value: int) -> bool:
    """What the registries say of an address, the narrowest range first; with our own exceptions."""
    if _covers(MAPPED, width, value):
        return may_be_reached(V4, value & 0xFFFF_FFFF)
    if any(_covers(each, width, value) for each in REFUSED_ALL_THE_SAME):
        return False
    found = [each for each in REGISTRY if _covers(each, width, value)]
    if found:
        return min(found, key=lambda each: each.last - each.first).is_reachable
    return width == V4 or _covers(ALLOCATED_V6, width, value)


def edges() -> list[tuple[int, int]]:
    """Both ends of every range, and their neighbours on either side."""
    wanted = {
        (each.version, end + step)
        for each in [*REGISTRY, MAPPED, ALLOCATED_V6]
        for end in (each.first, each.last)
        for step in (-1, 0, 1)
    }
    return sorted((width, value) for width, value in wanted if 0 <= value < 1 << width)
