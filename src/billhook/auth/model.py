"""Clients and what makes one valid. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network

from billhook.errors import InvalidParameters
from billhook.storage.text import plain_text

Network = IPv4Network | IPv6Network

LONGEST_NAME = 100
LONGEST_DESCRIPTION = 1000
MOST_NETWORKS = 50
DEFAULT_LIFESPAN = timedelta(hours=1)
LONGEST_LIFESPAN = timedelta(hours=24)

SCOPES = {
    "clients:read": "See the API keys of the organization.",
    "clients:write": "Create, change, rotate and revoke API keys.",
    "groups:read": "See notification groups and their providers.",
    "groups:write": "Create, change, test and delete notification groups and providers.",
    "notifications:read": "See notifications, deliveries and their attempts.",
    "notifications:send": "Send notifications through a group, and deliver again.",
}

GRACES = {
    "now": timedelta(0),
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}


class ClientState(StrEnum):
    ACTIVE = "active"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Secret:
    """What is known of a secret; the secret itself was shown once and is kept nowhere."""

    id: str
    hint: str  # its last four characters, for people to recognise it by
    created_at: datetime
    ends_at: datetime | None
    last_used_at: datetime | None
    last_used_address: str | None

    def is_live(self, now: datetime) -> bool:
        return self.ends_at is None or now < self.ends_at


@dataclass(frozen=True)
class Client:
    id: str
    organization_id: str
    name: str
    description: str
    scopes: tuple[str, ...]
    lifespan: timedelta
    networks: tuple[Network, ...]
    state: ClientState
    not_before: int  # Unix seconds; tokens issued earlier do not count. 0: nobody has revoked any
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None
    last_used_address: str | None
    secrets: tuple[Secret, ...]


def valid_name(name: str) -> str:
    return plain_text("name", name, shortest=1, longest=LONGEST_NAME)


def valid_description(description: str) -> str:
    return plain_text("description", description, shortest=0, longest=LONGEST_DESCRIPTION, may_break=True)


def valid_scopes(wanted: Iterable[str]) -> tuple[str, ...]:
    """In the order of the documented list, each once. Takes lists, and texts with spaces or commas between."""
    names = {name for part in wanted for name in re.split(r"[\s,]+", part) if name}
    if unknown := sorted(names - SCOPES.keys()):
        raise InvalidParameters.of("scope", f"unknown: {', '.join(unknown)}; known are {', '.join(SCOPES)}")
    if not names:
        raise InvalidParameters.of("scope", f"at least one is needed; known are {', '.join(SCOPES)}")
    return tuple(name for name in SCOPES if name in names)


def parse_lifespan(text: str) -> timedelta:
    """`30m`, `2h`, or the same in seconds (`1800`): 1 to 55 whole minutes or 1 to 24 whole hours."""
    minutes = _minutes(text)
    if minutes is not None and (1 <= minutes <= 55 or (minutes % 60 == 0 and 1 <= minutes // 60 <= 24)):
        return timedelta(minutes=minutes)
    raise InvalidParameters.of("lifespan", "must be 1m to 55m (minutes) or 1h to 24h (hours)")


def _minutes(text: str) -> int | None:
    match = re.fullmatch(r"([1-9][0-9]{0,4})([mh]?)", text.strip())
    if match is None:
        return None
    number, unit = int(match[1]), match[2]
    if unit == "m":
        return number if number <= 55 else None  # "60m" is refused as the rule says: minutes end at 55
    return number * 60 if unit == "h" else number // 60 if number % 60 == 0 else None


def spell_lifespan(lifespan: timedelta) -> str:
    minutes = int(lifespan.total_seconds()) // 60
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h"


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    parts = [part for text in texts for part in re.split(r"[\s,]+", text) if part]
    if len(parts) > MOST_NETWORKS:
        raise InvalidParameters.of("networks", f"at most {MOST_NETWORKS}")
    return tuple(_network(part) for part in parts)


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise InvalidParameters.of("networks", f"must be networks such as 203.0.113.0/24: {error}") from None


def parse_grace(text: str) -> timedelta:
    if text not in GRACES:
        raise InvalidParameters.of("grace", f"must be one of {', '.join(GRACES)}")
    return GRACES[text]
