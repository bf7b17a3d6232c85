"""A bare aiohttp client in its own process: what posting webhooks costs when nothing is kept, signed or guarded."""

import asyncio
import sys
from dataclasses import asdict, dataclass
from time import process_time

import aiohttp
import orjson
import uvloop

from bench.child import child, say
from bench.receiver import Receiver

AT_ONCE = 500  # as many as one worker has under way by default
SLOWEST = 50  # requests a second; fewer is a failure


@dataclass(frozen=True)
class Plan:
    url: str
    body: str
    count: int


@dataclass(frozen=True)
class Posted:
    per_second: float  # from the first to the last arrival
    cpu_microseconds: float  # of each


def post_bare(receiver: Receiver, body: str, count: int) -> Posted:
    plan = Plan(receiver.url(), body, count)
    receiver.reset()
    with child("bench.bare") as client:
        cpu_seconds = float(client.ask(asdict(plan), seconds=30 + count / SLOWEST))
    return Posted(receiver.tally().per_second, cpu_seconds / count * 1e6)


async def post_all(plan: Plan) -> float:
    """CPU seconds for all of them."""
    left = iter(range(plan.count))
    body = plan.body.encode()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def post_some() -> None:
            for _ in left:
                async with session.post(plan.url, data=body, headers={"Content-Type": "application/json"}) as answer:
                    await answer.read()

        began = process_time()
        await asyncio.gather(*(post_some() for _ in range(AT_ONCE)))
        return process_time() - began


if __name__ == "__main__":
    say(uvloop.run(post_all(Plan(**orjson.loads(sys.stdin.readline())))))
