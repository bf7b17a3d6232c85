"""Where a client may come from. Pure, and remembered: the same few addresses ask again and again."""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address

from billhook.auth.model import Network
from billhook.web.requests import parse_address

NOWHERE = IPv6Address("::")  # the address of a caller that has none, such as a local socket


@dataclass(frozen=True, eq=False)  # told apart by identity, which is quick to hash
class Origins:
    networks: tuple[Network, ...]


@lru_cache(maxsize=4096)
def is_within(origins: Origins, address: str) -> bool:
    parsed = parse_address(address) or NOWHERE
    return any(parsed in network for network in origins.networks)
