"""Group commit: what arrives while a commit is under way shares the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from billhook.errors import BillhookError, Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

LARGEST = 256  # of one commit: a few milliseconds of work
MOST_WAITING = 10_000  # more than a database can take in a few seconds; who comes later is told so

Commit = Callable[[list[Item]], Awaitable[list[Result | BillhookError]]]


class GroupCommit(Generic[Item, Result]):
    """`commit` takes a batch and gives each item's result, or the error that this one item has."""

    def __init__(
        self, commit: Commit[Item, Result], *, largest: int = LARGEST, most_waiting: int = MOST_WAITING
    ) -> None:
        self._commit, self._largest, self._most_waiting = commit, largest, most_waiting
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> Result:
        """Returns after the commit that holds the item; its caller may leave, the item is committed all the same."""
        if len(self._waiting) >= self._most_waiting:
            raise Unavailable(detail="more is waiting to be written than can be held")
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await done

    async def drain(self) -> None:
        """Until nothing waits any more."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(self._largest, len(self._waiting)))]
                await self._settle(batch)
        finally:
            self._running = None

    async def _settle(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._commit([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told to those who wait, never to nobody
            await self._fail(batch, error)
            return
        for (_, done), result in zip(batch, results, strict=True):
            if done.done():
                continue
            if isinstance(result, BillhookError):
                done.set_exception(result)
            else:
                done.set_result(result)

    async def _fail(self, batch: list[tuple[Item, asyncio.Future[Result]]], error: Exception) -> None:
        """Bad weather meets all alike. Anything else may be one item's fault: each is tried alone."""
        if len(batch) > 1 and not isinstance(error, Unavailable):
            for one in batch:
                await self._settle([one])
            return
        for _, done in batch:
            if not done.done():
                done.set_exception(error)
