"""Which group or provider the address of a page names, and what the addresses of their pages are."""

from billhook.console.visit import SignedIn
from billhook.groups import manage
from billhook.groups.model import Group, Provider
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id

NOTIFICATIONS = "/settings/notifications"


def group_path(group_id: str) -> str:
    return f"{NOTIFICATIONS}/groups/{group_id}"


def provider_path(group_id: str, provider_id: str) -> str:
    return f"{group_path(group_id)}/providers/{provider_id}"


def group_id(visit: SignedIn) -> str:
    return str(visit.request.path_params["group_id"])


def provider_id(visit: SignedIn) -> str:
    return str(visit.request.path_params["provider_id"])


async def find_group(tx: Transaction, visit: SignedIn) -> Group:
    return await manage.get_group(tx, group_id(visit), author=visit.author)


async def find_provider(tx: Transaction, visit: SignedIn, id: str | None = None) -> Provider:
    """The one that the address names, or another one of its group."""
    vault, wanted = visit.console.vault, id or provider_id(visit)
    return await manage.get_provider(tx, vault, group_id(visit), wanted, author=visit.author)


def after(visit: SignedIn) -> str | None:
    """The last one that was on the page before, if there was one."""
    given = visit.request.query_params.get("after", "")
    return given if is_id(given) else None


def now_ms(visit: SignedIn) -> int:
    return int(visit.now.timestamp() * 1000)
