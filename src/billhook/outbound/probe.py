"""Whether a receiver can be reached at all: looked up, connected to, and nothing sent."""

import asyncio
import errno
from enum import StrEnum

from billhook.outbound.guard import Blocked
from billhook.outbound.resolver import NoSuchName, Resolver

CONNECT_SECONDS = 3.0  # a receiver that takes longer for TCP alone is as good as away
MOST_DIALLED = 4  # addresses of one name


class Reach(StrEnum):
    """How far one gets."""

    REACHED = "it takes connections"
    NO_NAME = "there is no such name"
    NO_DNS = "its name could not be looked up"
    BLOCKED = "its address is not allowed"
    REFUSED = "it refuses connections"
    UNREACHABLE = "there is no way to it"
    SILENT = "it does not answer"


async def probe(resolver: Resolver, host: str, port: int) -> Reach:
    try:
        found = await resolver.resolve(host, port)
    except Blocked:
        return Reach.BLOCKED
    except NoSuchName:
        return Reach.NO_NAME
    except OSError:  # also a TimeoutError
        return Reach.NO_DNS
    addresses = [each["host"] for each in found[:MOST_DIALLED]]
    reached = await asyncio.gather(*(_dial(address, port) for address in addresses))
    # the first that fits says most: who refuses is there
    return next(reach for reach in Reach if reach in reached)


async def _dial(address: str, port: int) -> Reach:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return Reach.REFUSED
    except OSError as error:
        is_silent = isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT
        return Reach.SILENT if is_silent else Reach.UNREACHABLE
    writer.close()
    return Reach.REACHED
