"""What one can do with groups and providers that touches what is queued: delete, pause, resume. For API and CLI."""

from datetime import datetime

from billhook.auth.manage import Author
from billhook.delivery import holding, replay
from billhook.delivery.context import CHANNEL
from billhook.groups import manage
from billhook.groups.model import Provider
from billhook.storage.database import Transaction
from billhook.storage.notices import announce
from billhook.storage.vault import Vault


async def delete_group(tx: Transaction, group_id: str, *, author: Author, now: datetime) -> int:
    """How many queued deliveries were cancelled at once; if there are more, they follow."""
    cancelled = 0
    for provider_id in await manage.delete_group(tx, group_id, author=author, now=now):
        cancelled += await _cancel(tx, provider_id)
    return cancelled


async def delete_provider(
    tx: Transaction, group_id: str | None, provider_id: str, *, author: Author, now: datetime
) -> int:
    await manage.delete_provider(tx, group_id, provider_id, author=author, now=now)
    return await _cancel(tx, provider_id)


async def _cancel(tx: Transaction, provider_id: str) -> int:
    await replay.end_recoveries(tx, provider_id)
    return await holding.cancel(tx, provider_id)


async def pause(
    tx: Transaction, vault: Vault, group_id: str | None, provider_id: str, *, author: Author, now: datetime
) -> Provider:
    """What is queued is held until it is resumed, for a week at most."""
    paused = await manage.pause(tx, vault, group_id, provider_id, author=author, now=now)
    await holding.hold(tx, provider_id)
    return paused


async def resume(
    tx: Transaction, vault: Vault, group_id: str | None, provider_id: str, *, author: Author, now: datetime
) -> Provider:
    resumed = await manage.resume(tx, vault, group_id, provider_id, author=author, now=now)
    await holding.release(tx, provider_id)
    await announce(tx, CHANNEL)
    return resumed
