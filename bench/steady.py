"""A steady load of sends that outlives what it is sent to: each has an idempotency key and is repeated until its 202.

What a sender was told with 202 it remembers: that, and nothing else, must arrive.
"""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from uuid import uuid4

import aiohttp
import uvloop

from bench.backlog import BODY
from bench.credentials import Credentials
from bench.servers import Failed

SENDERS = 8
ANSWER_SECONDS = 5.0  # a process that stands still does not answer; the next one is asked instead
AGAIN_SECONDS = 0.2
FINISH_SECONDS = 90.0  # at the end, for what is still being repeated
JSON = {"Content-Type": "application/json"}
NO_ANSWER, CUT_OFF = "no answer in time", "connection lost or refused"
FOR_A_TOKEN = " for a token"


@dataclass(frozen=True)
class Plan:
    ports: tuple[int, ...]  # of the API processes
    groups: tuple[str, ...]
    credentials: Credentials
    rate: float  # a second, of all senders together


@dataclass
class Told:
    """What senders heard so far."""

    accepted: set[str] = field(default_factory=set)  # ids of deliveries
    answers: Counter[str] = field(default_factory=Counter)  # by status, or by what came instead of one
    unanswered: int = 0  # sends that were given up at the end: nobody said yes to them


class Load:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.told = plan, Told()
        self._enough, self._token = threading.Event(), ""
        self._doors = itertools.cycle(plan.groups)
        self._ports = itertools.cycle(plan.ports)
        self._give_up_at = float("inf")
        self._problem: Exception | None = None  # that ended it

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._work, name="senders")
        thread.start()
        patience = 0.0  # where the run was broken off
        try:
            yield
            patience = FINISH_SECONDS
        finally:
            self._give_up_at = monotonic() + patience
            self._enough.set()
            thread.join()
        self.must_go_on()

    def must_go_on(self) -> None:
        """What nobody expected ends the load, and without one nothing could be lost."""
        if self._problem is not None:
            raise Failed(f"the load has ended: {type(self._problem).__name__}: {self._problem}") from self._problem

    def _work(self) -> None:
        try:
            uvloop.run(self._run())
        except Exception as problem:  # noqa: BLE001 - the edge: a thread would end unheard
            self._problem = problem.exceptions[0] if isinstance(problem, ExceptionGroup) else problem

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as http, asyncio.TaskGroup() as senders:
            for number in range(SENDERS):
                senders.create_task(self._send_on(http, number))

    async def _send_on(self, http: aiohttp.ClientSession, number: int) -> None:
        """At its own pace; who was held up does not catch up, so that the load stays what it is."""
        pause = SENDERS / self.plan.rate
        due = monotonic() + pause * number / SENDERS
        while not self._enough.is_set():
            await asyncio.sleep(max(0.0, due - monotonic()))
            await self._send(http)
            due = max(due + pause, monotonic())

    async def _send(self, http: aiohttp.ClientSession) -> None:
        path, key = f"/api/v1/groups/{next(self._doors)}/notifications", uuid4().hex
        while not await self._try(http, path, key):
            if monotonic() > self._give_up_at:
                self.told.unanswered += 1
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _try(self, http: aiohttp.ClientSession, path: str, key: str) -> bool:
        base = f"http://127.0.0.1:{next(self._ports)}"
        headers = {**JSON, "Authorization": f"Bearer {self._token}", "Idempotency-Key": key}
        try:
            async with http.post(base + path, data=BODY, headers=headers) as answer:
                return await self._hear(http, base, answer)
        except TimeoutError:
            self.told.answers[NO_ANSWER] += 1
        except (aiohttp.ClientError, ConnectionError):
            self.told.answers[CUT_OFF] += 1
        return False

    async def _hear(self, http: aiohttp.ClientSession, base: str, answer: aiohttp.ClientResponse) -> bool:
        if answer.status == 401:  # the first of all, or the token has expired
            await self._fetch_token(http, base)
            return False
        if answer.status == 202:
            document = await answer.json()
            self.told.accepted.update(each["id"] for each in document["data"]["deliveries"])
        self.told.answers[str(answer.status)] += 1
        return answer.status == 202

    async def _fetch_token(self, http: aiohttp.ClientSession, base: str) -> None:
        secret = self.plan.credentials
        asked = {"client_id": secret.client_id, "client_secret": secret.client_secret}
        async with http.post(f"{base}/auth", json=asked) as answer:
            if answer.status == 201:
                self._token = (await answer.json())["data"]["access_token"]
            else:
                self.told.answers[f"{answer.status}{FOR_A_TOKEN}"] += 1
