"""Groups and providers, and what makes one valid. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from billhook.errors import InvalidParameters
from billhook.providers.kinds import Config
from billhook.storage.text import plain_text

LONGEST_NAME = 100
FASTEST = 1000  # requests a second: more than any receiver of notifications wants


class ProviderState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class Status(StrEnum):
    """Of a provider's health, in one word."""

    WELL = "well"
    FAILING = "failing"
    OPEN = "open"
    WAITING = "waiting"


@dataclass(frozen=True)
class Group:
    id: str
    organization_id: str
    name: str
    created_at: datetime


class Health(NamedTuple):
    """Kept by whoever delivers. Moments are milliseconds of the database's clock; 0 or None: there is none."""

    failures: int = 0  # in a row
    failed_attempts: int = 0  # since failing_since_ms
    openings: int = 0  # of the breaker, in a row
    open_until_ms: int = 0
    waits_until_ms: int = 0  # its Retry-After
    next_slot_us: int = 0  # its rate limit
    failing_since_ms: int | None = None
    last_success_ms: int | None = None
    last_failure_ms: int | None = None

    def status(self, now_ms: int) -> Status:
        if self.open_until_ms > now_ms:
            return Status.OPEN
        if self.waits_until_ms > now_ms:
            return Status.WAITING
        return Status.FAILING if self.failures or self.openings else Status.WELL


@dataclass(frozen=True)
class SigningSecret:
    secret: str = field(repr=False)
    ends_ms: int | None  # None for the newest

    def is_live(self, now_ms: int) -> bool:
        return self.ends_ms is None or now_ms < self.ends_ms


@dataclass(frozen=True)
class Provider:
    id: str
    organization_id: str
    group_id: str
    type: str
    name: str
    config: Config = field(repr=False)  # its type knows what is in it
    secrets: tuple[SigningSecret, ...] = field(repr=False)  # the newest first
    rate_limit: int | None  # requests a second
    version: int  # moves with config and secrets
    state: ProviderState
    state_reason: str | None
    created_at: datetime
    changed_at: datetime
    deleted_at: datetime | None
    health: Health

    def live_secrets(self, now_ms: int) -> tuple[str, ...]:
        return tuple(secret.secret for secret in self.secrets if secret.is_live(now_ms))


def valid_name(name: str) -> str:
    return plain_text("name", name, shortest=1, longest=LONGEST_NAME)


def valid_rate_limit(limit: int | None) -> int | None:
    """Requests a second; 0 and None are no limit."""
    if not limit:
        return None
    if not 1 <= limit <= FASTEST:
        raise InvalidParameters.of("rate_limit", f"must be 1 to {FASTEST:,} requests a second, or 0 for no limit")
    return limit
