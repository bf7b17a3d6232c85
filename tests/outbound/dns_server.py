"""A name server on this machine that says whatever a test, or an attacker, wants."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, ip_address
from types import TracebackType
from typing import Self

A, AAAA = 1, 28
NO_SUCH_NAME = 3

Zone = Mapping[str, Sequence[str]]
Answers = Callable[[str], Sequence[str] | None]


class NameServer(asyncio.DatagramProtocol):
    """`zone` has the addresses of each name, or is asked for them; None: it stays silent. Nothing may be cached."""

    def __init__(self, zone: Zone | Answers) -> None:
        self.asked: list[str] = []
        self._answers = zone if callable(zone) else lambda name: zone.get(name, ())

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._transport.get_extra_info("sockname"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()

    def datagram_received(self, query: bytes, sender: tuple[str, int]) -> None:
        name, end = read_name(query)
        self.asked.append(name)
        addresses = self._answers(name)
        if addresses is not None:
            kind = int.from_bytes(query[end : end + 2])
            self._transport.sendto(reply(query[: end + 4], kind, addresses), sender)


def read_name(query: bytes) -> tuple[str, int]:
    """The name asked for, in lower case, and where it ends."""
    labels, position = [], 12
    while length := query[position]:
        labels.append(query[position + 1 : position + 1 + length].decode("ascii").lower())
        position += 1 + length
    return ".".join(labels), position + 1


def reply(question: bytes, kind: int, addresses: Sequence[str]) -> bytes:
    records = [record(kind, address) for address in addresses if kind_of(address) == kind]
    flags = 0x8180 | (0 if addresses else NO_SUCH_NAME)
    counts = b"\0\1" + len(records).to_bytes(2) + b"\0\0\0\0"
    return question[:2] + flags.to_bytes(2) + counts + question[12:] + b"".join(records)


def record(kind: int, address: str) -> bytes:
    packed = ip_address(address).packed
    points_to_question = b"\xc0\x0c"
    return points_to_question + kind.to_bytes(2) + b"\0\1" + bytes(4) + len(packed).to_bytes(2) + packed


def kind_of(address: str) -> int:
    return A if isinstance(ip_address(address), IPv4Address) else AAAA
