"""Providers from their rows, each decrypted once: whoever delivers meets the same few again and again."""

from collections import OrderedDict
from typing import Any

from sqlalchemy import Row

from billhook.groups.model import Provider, SigningSecret
from billhook.groups.store import provider_of, unseal
from billhook.providers.kinds import Config
from billhook.storage.vault import Vault

LARGEST = 10_000  # providers: some tens of megabytes

Opened = tuple[Config, tuple[SigningSecret, ...]]


class Directory:
    """Give it committed rows only: a version that was rolled back will mean something else when it comes again."""

    def __init__(self, vault: Vault, *, largest: int = LARGEST) -> None:
        self._vault, self._largest = vault, largest
        self._opened: OrderedDict[str, tuple[int, Opened]] = OrderedDict()

    def open(self, row: Row[Any]) -> Provider:
        """All but what is encrypted comes from the row itself, so state and health are never older than it."""
        version, opened = self._opened.get(row.id, (None, None))
        if opened is None or version != row.version:
            opened = unseal(self._vault, row)
            self._opened[row.id] = (row.version, opened)
        self._opened.move_to_end(row.id)
        if len(self._opened) > self._largest:
            self._opened.popitem(last=False)
        return provider_of(row, *opened)
