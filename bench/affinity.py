"""Which core a process runs on, so that the generator never takes time from what it measures."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

SERVER_CORE = 0
GENERATOR_CORE = 1


@contextmanager
def pinned_to(core: int | None) -> Iterator[None]:
    """Children started inside inherit the core. A no-op for None, and where the system cannot pin or has no such."""
    if core is None or not hasattr(os, "sched_setaffinity") or core not in os.sched_getaffinity(0):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
