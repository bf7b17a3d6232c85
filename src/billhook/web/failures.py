"""Failures that all processes count together: each tells the others what it has counted.

By word of mouth alone: nothing is stored, and while the database is away each process counts for itself.
"""

import time
from collections.abc import Iterator

from billhook.errors import BillhookError
from billhook.storage.database import Database
from billhook.storage.notices import announce, follow
from billhook.storage.vault import Vault
from billhook.web.throttle import FailureWindow

CHANNEL = "billhook_failures"
KEYS_A_WORD = 250  # a word may have 7,900 bytes


class Failures:
    def __init__(self, vault: Vault) -> None:
        self._secret = vault.derive("failures")
        self.windows: dict[str, FailureWindow] = {}

    def window(self, name: str, limit: int) -> FailureWindow:
        """`name`: by which the other processes know it."""
        assert name not in self.windows
        self.windows[name] = window = FailureWindow(limit, self._secret)
        return window

    async def tell(self, db: Database) -> None:
        """What was counted since it was last told."""
        words = list(self._words())
        if not words or db.is_sqlite:
            return
        try:
            async with db.transaction() as tx:
                for word in words:
                    await announce(tx, CHANNEL, word)
        except BillhookError:
            for name, *keys in map(str.split, words):
                self.windows[name].untold.extendleft(reversed(keys))
            raise

    async def listen(self, db: Database) -> None:
        """Until cancelled."""
        await follow(db, CHANNEL, self.hear)

    def _words(self) -> Iterator[str]:
        for name, window in self.windows.items():
            while window.untold:
                some = min(len(window.untold), KEYS_A_WORD)
                yield " ".join([name, *(window.untold.popleft() for _ in range(some))])

    def hear(self, word: str) -> None:
        name, *keys = word.split(" ")
        now = time.monotonic()
        if name in self.windows:  # not so from a newer version, nor when listening begins
            for key in keys:
                self.windows[name].hear(key, now)
