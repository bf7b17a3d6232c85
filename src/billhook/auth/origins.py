"""Where a client may come from. Pure, and remembered: the same few addresses ask again and again."""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from billhook.auth.model import Network

NOWHERE = IPv6Address("::")  # the address of a caller that has none, such as a local socket


@dataclass(frozen=True, eq=False)  # told apart by identity, which is quick to hash
class Origins:
    networks: tuple[Network, ...]


@lru_cache(maxsize=4096)
def is_within(origins: Origins, address: str) -> bool:
    parsed = _parse(address)
    return any(parsed.version == network.version and parsed in network for network in origins.networks)


def _parse(text: str) -> IPv4Address | IPv6Address:
    """An IPv4 caller on an IPv6 socket is an IPv4 caller."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return NOWHERE
    return getattr(parsed, "ipv4_mapped", None) or parsed
