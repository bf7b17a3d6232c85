"""What goes on beside the requests: following changes, telling of failures, writing tallies, rotating, forgetting."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog

from billhook.accounts import invitations, sessions
from billhook.auth.activity import purge_token_requests
from billhook.auth.context import Auth
from billhook.auth.keystore import keep_rotating
from billhook.auth.revoked import purge_revoked
from billhook.auth.store import purge_secrets
from billhook.errors import BillhookError
from billhook.storage.database import Transaction

POLL_SECONDS = 0.4  # a change must be felt everywhere within a second
FLUSH_SECONDS = 2.0  # late enough to be cheap with many clients at work, soon enough to look at
ROTATION_SECONDS = 60.0
PATIENCE_SECONDS = 10.0  # with work that goes on at a stop
PURGE_SECONDS = 600.0
PURGE_ROWS = 1000  # at a time, so that no delete holds the writer for long
SECRETS_KEPT = timedelta(days=30)  # after their end, so that a late use of one can be named

log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[None]]


@asynccontextmanager
async def keep_up(auth: Auth) -> AsyncIterator[None]:
    """From before the first request until after the last; then everything tallied is written."""
    await rotate_keys(auth)
    await auth.registry.refresh()
    stopping = asyncio.Event()
    tell, flush = partial(auth.failures.tell, auth.db), partial(auth.activity.flush, auth.db)
    works = [
        _repeat(POLL_SECONDS, "read the change feed", auth.registry.refresh, stopping),
        _repeat(POLL_SECONDS, "tell of failures", tell, stopping),
        _repeat(FLUSH_SECONDS, "write tallies", flush, stopping),
        _repeat(ROTATION_SECONDS, "rotate keys", lambda: rotate_keys(auth), stopping),
        _repeat(PURGE_SECONDS, "purge", lambda: purge(auth, now=datetime.now(UTC)), stopping),
    ]
    tasks = [asyncio.create_task(work) for work in works]
    listening = asyncio.create_task(auth.failures.listen(auth.db))
    try:
        yield
    finally:
        stopping.set()
        listening.cancel()
        await _finish([*tasks, listening])
        last = _attempt("write tallies", flush), _attempt("tell of failures", tell)
        await _finish([asyncio.create_task(work) for work in last])


async def _finish(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Let them come to their end; but a database that hangs must not keep the process from ending."""
    _, hanging = await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
    for task in hanging:
        task.cancel()


async def rotate_keys(auth: Auth) -> None:
    await auth.registry.refresh()
    if await keep_rotating(auth.db, auth.vault, list(auth.registry.keys), now=datetime.now(UTC)):
        await auth.registry.refresh()


async def purge(auth: Auth, *, now: datetime) -> None:
    """Forget what is old, in bounded deletes with a transaction each, for as long as there is anything."""
    purges: list[Callable[[Transaction], Awaitable[int]]] = [
        lambda tx: purge_token_requests(tx, now=now, limit=PURGE_ROWS),
        lambda tx: purge_revoked(tx, now=now, limit=PURGE_ROWS),
        lambda tx: purge_secrets(tx, ended_before=now - SECRETS_KEPT, limit=PURGE_ROWS),
        lambda tx: sessions.purge(tx, now=now, limit=PURGE_ROWS),
        lambda tx: invitations.purge(tx, now=now, limit=PURGE_ROWS),
    ]
    for forget in purges:
        purged = PURGE_ROWS
        while purged >= PURGE_ROWS:
            async with auth.db.transaction() as tx:
                purged = await forget(tx)
    auth.registry.forget_expired(now, kept=SECRETS_KEPT)


async def _repeat(seconds: float, what: str, work: Work, stopping: asyncio.Event) -> None:
    while not await _is_set(stopping, within=seconds):
        await _attempt(what, work)


async def _is_set(event: asyncio.Event, *, within: float) -> bool:
    try:
        return await asyncio.wait_for(event.wait(), within)
    except TimeoutError:
        return False


async def _attempt(what: str, work: Work) -> None:
    try:
        await work()
    except BillhookError as error:
        log.warning(f"could not {what}; trying again", detail=error.detail)
    except Exception:  # the edge: a bug in one round must not end all later ones
        log.exception(f"could not {what}; trying again")
