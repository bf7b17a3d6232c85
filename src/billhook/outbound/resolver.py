"""Names to addresses, of which every single one has passed the guard."""

import asyncio
import socket
from collections.abc import Sequence
from time import perf_counter

import aiodns
import pycares
from aiohttp.abc import AbstractResolver, ResolveResult

from billhook.outbound.guard import Guard
from billhook.outbound.trace import TRACE, milliseconds_since

# A name is taken as it is written: no search domains (as if it ended in a dot, but /etc/hosts still counts) and no
# aliases from the environment. EDNS is c-ares' default, which naming any flag would switch off.
FLAGS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS
TRIES = 2  # a lost packet costs half of the deadline, not the lookup
MOST_ADDRESSES = 8  # that are dialled; a hostile zone can name thousands
NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class NoSuchName(OSError):
    """Whoever knows was asked, and says that the name has no address."""


class Resolver(AbstractResolver):
    """Raises TimeoutError, Blocked, NoSuchName, or another OSError when nobody could be asked."""

    def __init__(
        self, guard: Guard, *, nameservers: Sequence[str] | None = None, deadline_seconds: float = 2.0
    ) -> None:
        self._guard = guard
        self._deadline_seconds = deadline_seconds
        self._dns = aiodns.DNSResolver(nameservers, flags=FLAGS, timeout=deadline_seconds / TRIES, tries=TRIES)

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[ResolveResult]:
        """Of both families, whatever is asked for: the guard has to see them all."""
        began = perf_counter()
        addresses = await self._look_up(host)
        if trace := TRACE.get(None):
            trace.dns = milliseconds_since(began)
        self._guard.must_permit_all(addresses, port)
        return [_result(host, address, port) for address in addresses[:MOST_ADDRESSES]]

    async def _look_up(self, host: str) -> list[str]:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                found = await self._dns.getaddrinfo(host, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            if error.args[0] == aiodns.error.ARES_ETIMEOUT:
                raise TimeoutError from None
            unknown = error.args[0] in (aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA)
            raise (NoSuchName if unknown else OSError)("the name could not be looked up") from None
        return [node.addr[0].decode("ascii") for node in found.nodes]

    async def close(self) -> None:
        await self._dns.close()


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=NUMERIC)
