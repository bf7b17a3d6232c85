"""Groups and providers for the tests of this package."""

from datetime import UTC, datetime
from typing import Any

from billhook.accounts.installation import Installation
from billhook.accounts.organizations import find_organization
from billhook.auth.manage import Author
from billhook.groups import manage
from billhook.groups.manage import ProviderSpec
from billhook.groups.model import Group, Provider
from tests.support import OPERATOR

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
TOKEN = "Bearer very-secret-header"
URL = "https://receiver.example/hook?token=very-secret-query"
FIELDS = {
    "server_url": URL,
    "request_method": "POST",
    "request_headers": [{"key": "Authorization", "value": TOKEN}],
}


async def make_group(
    installation: Installation,
    name: str = "Ops",
    *,
    organization_id: str | None = None,
    most: int = 100,
    author: Author = OPERATOR,
) -> Group:
    async with installation.db.transaction() as tx:
        owner = await find_organization(tx, organization_id)
        return await manage.create_group(tx, name, organization_id=owner.id, most=most, author=author, now=NOW)


async def make_provider(
    installation: Installation, group_id: str, *, name: str = "Pager", most: int = 20, **fields: Any
) -> tuple[Provider, str]:
    spec = ProviderSpec(type="Webhook", name=name, fields=FIELDS | fields)
    async with installation.db.transaction() as tx:
        return await manage.create_provider(tx, installation.vault, group_id, spec, most=most, author=OPERATOR, now=NOW)
