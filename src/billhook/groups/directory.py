"""Providers from their rows, each decrypted once: whoever delivers meets the same few again and again."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy import Row, select

from billhook.groups.model import Provider
from billhook.groups.store import open_provider, provider_of, providers
from billhook.storage.database import Transaction
from billhook.storage.vault import Vault, WrongKey

log = structlog.get_logger(__name__)

LARGEST = 10_000  # providers: some tens of megabytes


class Directory:
    """Give it committed rows only: a version that was rolled back will mean something else when it comes again."""

    def __init__(self, vault: Vault, *, largest: int = LARGEST) -> None:
        self._vault, self._largest = vault, largest
        self._opened: OrderedDict[str, Provider] = OrderedDict()

    def open(self, row: Row[Any]) -> Provider:
        """All but what is encrypted comes from the row itself, so state and health are never older than it."""
        before = self._opened.get(row.id)
        if before is not None and before.version == row.version:
            provider = provider_of(row, before.config, before.secrets)
        else:
            provider = open_provider(self._vault, row)
        self._opened[row.id] = provider
        self._opened.move_to_end(row.id)
        if len(self._opened) > self._largest:
            self._opened.popitem(last=False)
        return provider

    async def fetch(self, tx: Transaction, versions: Mapping[str, int]) -> dict[str, Provider]:
        """These providers in these versions; state and health may be older. What cannot be used is left out."""
        known = {id: self._opened[id] for id in versions if id in self._opened}
        found = {id: provider for id, provider in known.items() if provider.version == versions[id]}
        if missing := versions.keys() - found.keys():
            rows = await tx.execute(select(providers).where(providers.c.id.in_(missing)))
            found |= {row.id: provider for row in rows if (provider := self._try_to_open(row)) is not None}
        return found

    def _try_to_open(self, row: Row[Any]) -> Provider | None:
        try:
            provider = self.open(row)
        except WrongKey as error:  # one that was tampered with must not keep all others from being delivered to
            log.error("a provider cannot be read", provider=row.id, detail=error.detail)
            return None
        return None if provider.deleted_at is not None else provider
