"""A receiver beside the test, in a thread of its own: it notes who came, and holds requests as it is told."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from anyio.from_thread import start_blocking_portal

from tests.delivery.receivers import parsed
from tests.outbound.receivers import OK, RawReceiver

Holds = Callable[[int], bool]


def nobody(_number: int) -> bool:
    return False


def everybody(_number: int) -> bool:
    return True


class Recorder:
    """Answers 200. `holds` says of each request, by its number from 1, whether it must wait to be released."""

    def __init__(
        self, holds: Holds = nobody, *, host: str = "127.0.0.1", enter: Callable[[], None] = lambda: None
    ) -> None:
        """`enter` is called by its thread before anything else, to go where the host is."""
        self.answer = OK  # to whoever asks from now on
        self.ids: list[str] = []  # the webhook-id of each request, in the order in which they came
        self.peers: list[str] = []  # and the address it came from
        self.most = 0  # requests that were open at once
        self._open = 0
        self._held: deque[tuple[str, asyncio.Event]] = deque()
        self._holds = holds
        self._enter = enter
        self._receiver = RawReceiver(self._reply, host=host)

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self._portal = opening.enter_context(start_blocking_portal())
            self._portal.call(self._enter)
            opening.enter_context(self._portal.wrap_async_context_manager(self._receiver))
            self._closing = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @property
    def port(self) -> int:
        return self._receiver.port

    def url(self, path: str = "/hook") -> str:
        return self._receiver.url(path)

    @property
    def repeated(self) -> set[str]:
        """Those that came more than once."""
        return {each for each, times in Counter(self.ids).items() if times > 1}

    @property
    def held(self) -> list[str]:
        return [webhook_id for webhook_id, _ in list(self._held)]

    def hold(self) -> None:
        """Whoever comes from now on."""
        self._holds = everybody

    def release_one(self) -> None:
        """The one that has waited longest."""
        self._portal.call(self._pass_one)

    def release(self) -> None:
        """All, and whoever comes later is not held at all."""
        self._portal.call(self._pass_all)

    def _pass_one(self) -> None:
        _, passes = self._held.popleft()
        passes.set()

    def _pass_all(self) -> None:
        self._holds = nobody
        while self._held:
            self._pass_one()

    async def _reply(self, reader: StreamReader, writer: StreamWriter) -> None:
        (webhook_id,) = parsed(self._receiver.requests[-1]).all("webhook-id")
        self.ids.append(webhook_id)
        self.peers.append(writer.get_extra_info("peername")[0])
        self._open += 1
        self.most = max(self.most, self._open)
        answer = self.answer
        try:
            if self._holds(len(self.ids)):
                await self._hold(webhook_id, reader)
        finally:
            self._open -= 1
        writer.write(answer)  # in the same step: nobody can come again before this one is counted as gone
        await writer.drain()

    async def _hold(self, webhook_id: str, reader: StreamReader) -> None:
        """Until it is released; a ConnectionError when the sender has gone before that."""
        waiting = (webhook_id, asyncio.Event())
        self._held.append(waiting)
        released, left = asyncio.create_task(waiting[1].wait()), asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait([released, left], return_when=asyncio.FIRST_COMPLETED)
            if not waiting[1].is_set():
                self._held.remove(waiting)
                raise ConnectionResetError("the sender has gone")
        finally:
            for task in (released, left):
                task.cancel()
            await asyncio.gather(released, left, return_exceptions=True)
