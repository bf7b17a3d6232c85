"""Test-send: one attempt on the real path, at once, also for settings that are not saved. Nothing is queued or kept."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from billhook.delivery.attempt import build, told
from billhook.errors import InvalidParameters, RateLimited
from billhook.groups.manage import COMMON, ProviderSpec
from billhook.groups.model import Health, Provider, ProviderState, SigningSecret
from billhook.outbound.client import Sender
from billhook.outbound.request import Exchange
from billhook.providers.kinds import Message
from billhook.providers.registry import provider_type
from billhook.providers.signing import new_signing_secret
from billhook.storage.ids import new_id

MOST_AT_ONCE = 10  # of one organization: each may take 15 seconds
LONGEST_SECONDS = 15

TITLE = "Test from Billhook"
CONTENT = "If you can read this, notifications will reach this receiver."


class Trials:
    """The test-sends of this process that are under way."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._under_way: Counter[str] = Counter()

    async def run(self, provider: Provider, message: Message, *, now_ms: int) -> Exchange:
        if reason := provider_type(provider.type).check(provider.config, message):
            raise InvalidParameters.of("content", reason)
        request = build(provider, message.title, message.content, new_id("tst"), now_ms=now_ms, is_test=True)
        async with self._place(provider.organization_id):
            return told(await self._sender.send(request), request, provider)

    @asynccontextmanager
    async def _place(self, organization_id: str) -> AsyncIterator[None]:
        if self._under_way[organization_id] >= MOST_AT_ONCE:
            raise RateLimited("too many tests at once", retry_after_seconds=LONGEST_SECONDS)
        self._under_way[organization_id] += 1
        try:
            yield
        finally:
            self._under_way[organization_id] -= 1
            if not self._under_way[organization_id]:
                del self._under_way[organization_id]


def with_changes(provider: Provider, changes: Mapping[str, Any]) -> Provider:
    """The provider as it would be, were the changes saved."""
    if changes.get("type", provider.type) != provider.type:
        raise InvalidParameters.of("type", "cannot be changed")
    own = {name: value for name, value in changes.items() if name not in COMMON}
    return replace(provider, config=provider_type(provider.type).configure(own, provider.config))


def unsaved(spec: ProviderSpec, *, organization_id: str, group_id: str, now: datetime) -> Provider:
    """A provider that nobody has saved, with a signing secret that nobody knows."""
    return Provider(
        id=new_id("prv"),
        organization_id=organization_id,
        group_id=group_id,
        type=spec.type,
        name=spec.name,
        config=provider_type(spec.type).configure(spec.fields, None),
        secrets=(SigningSecret(new_signing_secret(), None),),
        rate_limit=None,
        version=0,
        state=ProviderState.ACTIVE,
        state_reason=None,
        created_at=now,
        changed_at=now,
        deleted_at=None,
        health=Health(),
    )
