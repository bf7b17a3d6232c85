"""Which addresses a webhook may reach. Pure: no name is looked up, no socket is opened."""

from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

# Not `is_global`: in Python 3.11 that is true for multicast, NAT64, 6to4 and other ways back inside.
FORBIDDEN_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and the inside of some clouds
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local; the clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
PUBLIC_V6 = IPv6Network("2000::/3")  # all that is assigned to the public; NAT64, for one, lies outside
FORBIDDEN_V6 = tuple(IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))

# Services that must not hear from us even on public addresses: a POST can be a command to them, or spam.
FORBIDDEN_PORTS = frozenset(
    (21, 22, 23, 25, 53, 110, 111, 135, 139, 143, 389, 445, 465, 514, 587, 636, 873, 993, 995)  # system and mail
    + (1433, 1521, 2049, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 5900, 5984, 6379)  # data, queues, remote control
    + (9042, 9092, 9200, 9300, 11211, 27017)
)

LOOPBACK_V4 = IPv4Network("127.0.0.0/8")
LOOPBACK_V6 = IPv6Network("::1/128")


class Blocked(OSError):
    """An address that may not be dialled. An OSError: the dialling code treats it like any failed dial."""

    def __init__(self, address: str | None = None, port: int | None = None) -> None:
        super().__init__("the address is not allowed")
        self.address = address
        self.port = port


@dataclass(frozen=True)
class Guard:
    """The public Internet, and the networks that the operator allows besides."""

    allow: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        # Whoever allows this machine means `localhost` too, which commonly is both 127.0.0.1 and ::1.
        if any(isinstance(network, IPv4Network) and network.supernet_of(LOOPBACK_V4) for network in self.allow):
            object.__setattr__(self, "allow", (*self.allow, LOOPBACK_V6))

    def permits(self, address: str, port: int | None = None) -> bool:
        """False for anything that is not plainly an address."""
        parsed = parse_address(address)
        if parsed is None:
            return False
        if any(parsed in network for network in self.allow):
            return True
        return is_public(parsed) and port not in FORBIDDEN_PORTS

    def must_permit(self, address: str, port: int | None = None) -> None:
        if not self.permits(address, port):
            raise Blocked(address, port)

    def must_permit_all(self, addresses: Collection[str], port: int | None = None) -> None:
        """One bad address condemns the name: its owner decides which one is dialled."""
        if not addresses:
            raise Blocked(port=port)
        for address in addresses:
            self.must_permit(address, port)


def parse_address(text: str) -> Address | None:
    """The address that is really meant: `::ffff:127.0.0.1` is 127.0.0.1. None for garbage and for zone ids."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return address
    return None if address.scope_id else address.ipv4_mapped or address


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in FORBIDDEN_V4)
    return address in PUBLIC_V6 and not any(address in network for network in FORBIDDEN_V6)
