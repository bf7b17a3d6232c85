"""The bell that wakes the worker."""

import asyncio

from billhook.delivery.bell import Bell

LONG = 3600.0  # seconds: who waits that long has not heard it


async def test_who_waits_is_woken() -> None:
    bell = Bell()
    waiting = asyncio.create_task(bell.wait(LONG))
    await asyncio.sleep(0)
    assert not waiting.done()
    bell.ring()
    await waiting


async def test_a_ring_that_came_before_is_heard_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    await bell.wait(LONG)
    again = asyncio.create_task(bell.wait(LONG))
    await asyncio.sleep(0)
    assert not again.done()
    bell.ring()
    await again


async def test_waiting_ends_by_itself() -> None:
    bell = Bell()
    await bell.wait(0.0)
    bell.ring()
    await bell.wait(0.0)
    await bell.wait(0.001)
