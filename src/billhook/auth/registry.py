"""What issuing and checking tokens needs to know, held in memory and never more than a second behind the database.

A process that changes something calls `refresh` before it answers; all others see the change feed move.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_network
from sys import intern

from sqlalchemy import select

from billhook.auth import keys as rules
from billhook.auth.keys import Key
from billhook.auth.keystore import load_keys
from billhook.auth.model import ClientState
from billhook.auth.origins import Origins
from billhook.auth.revoked import revoked_tokens
from billhook.auth.store import client_secrets, clients
from billhook.auth.tokens import Sign, signer_of
from billhook.errors import Unavailable
from billhook.storage import feed
from billhook.storage.database import Database, Transaction
from billhook.storage.vault import Vault
from billhook.web.lanes import Steps

PAGE = 2000  # rows a read; between pages other requests are served
PATIENCE_SECONDS = 60.0  # how long tokens are issued on what was last known while the database is away
ANYWHERE = Origins((ip_network("0.0.0.0/0"), ip_network("::/0")))


@lru_cache(maxsize=1024)
def read_origins(text: str) -> Origins:
    """Clients with the same networks share them."""
    return Origins(tuple(ip_network(part) for part in text.split(","))) if text else ANYWHERE


@dataclass(frozen=True, slots=True)
class KnownClient:
    id: str
    organization_id: str
    scope: str
    lifespan_seconds: int
    origins: Origins
    is_active: bool
    epoch: int
    not_before: int


@dataclass(frozen=True, slots=True)
class KnownSecret:
    id: str
    client_id: str
    digest: bytes
    ends_at: float  # Unix seconds; infinity when it does not end


class Registry:
    def __init__(self, db: Database, vault: Vault) -> None:
        self._db = db
        self._vault = vault
        self._version = -1
        self._fresh_at = 0.0
        self._refreshing = asyncio.Lock()
        self._signing: tuple[Sign, float] | None = None  # how to sign, and until when that is so
        self._published: tuple[int, Sequence[Key]] | None = None  # in which second they were looked for
        self.clients: dict[str, KnownClient] = {}
        self.secrets: dict[str, KnownSecret] = {}
        self.revoked: dict[str, float] = {}  # token id: when the token ends by itself
        self.keys: Sequence[Key] = ()

    async def refresh(self) -> None:
        """Learn everything that was committed before this call."""
        async with self._refreshing:
            asked_at = time.monotonic()
            async with self._db.reading() as tx:
                version = await feed.current(tx)
                if version < self._version:
                    self._forget_all()  # an older database was put back
                if version != self._version:
                    await self._learn(tx)
            self._version, self._fresh_at = version, asked_at

    @property
    def age_seconds(self) -> float:
        """How long ago what is held here was known to be the latest."""
        return time.monotonic() - self._fresh_at

    def must_be_fresh(self) -> None:
        """Better no answer than one that may have been revoked a while ago."""
        if self.age_seconds > PATIENCE_SECONDS:
            raise Unavailable(detail="the registry is stale: the database has been away for too long")

    def sign(self, payload: bytes, now: float) -> Steps[bytes]:
        if self._signing is None or now >= self._signing[1]:
            self._signing = self._choose_signer(now)
        return self._signing[0](payload)

    def published_keys(self) -> Sequence[Key]:
        """To the second: every request with a token asks."""
        second = int(time.time())
        if self._published is None or self._published[0] != second:
            self._published = second, rules.published(self.keys, datetime.fromtimestamp(second, UTC))
        return self._published[1]

    def key_age_seconds(self) -> float:
        now = datetime.now(UTC)
        key = rules.signer(self.keys, now)
        return (now - key.active_from).total_seconds() if key else 0.0

    def _choose_signer(self, now: float) -> tuple[Sign, float]:
        moment = datetime.fromtimestamp(now, UTC)
        key = rules.signer(self.keys, moment)
        if key is None:
            raise Unavailable(detail="there is no signing key yet")
        upcoming = [other.active_from.timestamp() for other in self.keys if other.active_from > moment]
        return signer_of(key), min(upcoming, default=float("inf"))

    def _forget_all(self) -> None:
        self._version = -1
        self.clients, self.secrets, self.revoked = {}, {}, {}

    async def _learn(self, tx: Transaction) -> None:
        """Read all rows stamped after what is known. Secrets come first: one without its client cannot be used."""
        await self._learn_secrets(tx)
        await self._learn_clients(tx)
        revoked = select(revoked_tokens).where(revoked_tokens.c.version > self._version)
        for row in await tx.execute(revoked):
            self.revoked[row.jti] = row.expires_at.timestamp()
        self.keys = await load_keys(tx, self._vault)
        self._signing = self._published = None

    async def _learn_secrets(self, tx: Transaction) -> None:
        changed = select(client_secrets).join(clients).where(clients.c.version > self._version)
        page, last = changed.order_by(client_secrets.c.id).limit(PAGE), ""
        while rows := (await tx.execute(page.where(client_secrets.c.id > last))).all():
            for row in rows:
                ends_at = row.ends_at.timestamp() if row.ends_at else float("inf")
                self.secrets[row.id] = KnownSecret(row.id, row.client_id, row.digest, ends_at)
            last = rows[-1].id

    async def _learn_clients(self, tx: Transaction) -> None:
        changed = select(clients).where(clients.c.version > self._version)
        page, last = changed.order_by(clients.c.id).limit(PAGE), ""
        while rows := (await tx.execute(page.where(clients.c.id > last))).all():
            for row in rows:
                self.clients[row.id] = KnownClient(
                    id=row.id,
                    organization_id=intern(row.organization_id),
                    scope=intern(row.scope),
                    lifespan_seconds=row.lifespan_seconds,
                    origins=read_origins(row.networks),
                    is_active=row.state == ClientState.ACTIVE,
                    epoch=row.epoch,
                    not_before=row.not_before,
                )
            last = rows[-1].id

    def forget_expired(self, now: datetime, *, kept: timedelta) -> None:
        """What the database has purged need not be remembered here."""
        long_ago = (now - kept).timestamp()
        self.revoked = {jti: ends for jti, ends in self.revoked.items() if ends > now.timestamp()}
        for secret in [secret for secret in self.secrets.values() if secret.ends_at < long_ago]:
            del self.secrets[secret.id]
