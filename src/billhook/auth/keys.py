"""Signing keys and when each one signs, is published and is followed by the next. Pure but for `new_key`.

A key's whole life is decided by the moment it becomes active and the moment its successor does, so nothing has to be
written when those moments pass, and every process comes to the same answer by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import zip_longest

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from joserfc.jwk import ECKey

from billhook.auth.model import LONGEST_LIFESPAN

PERIOD = timedelta(days=30)  # how long a key signs
ANNOUNCEMENT = timedelta(hours=24)  # how long the next key is published before it signs
JWKS_MAX_AGE = timedelta(minutes=5)  # how long others may keep our key set
RETENTION = LONGEST_LIFESPAN + 2 * JWKS_MAX_AGE  # after its last token has expired, and its readers have looked again


class KeyState(StrEnum):
    NEXT = "next"  # published, not yet signing
    ACTIVE = "active"
    RETIRED = "retired"  # its tokens still count
    DROPPED = "dropped"  # its tokens do not count: an emergency, or long expired


@dataclass(frozen=True)
class Key:
    private: EllipticCurvePrivateKey
    created_at: datetime
    active_from: datetime
    dropped_at: datetime | None = None

    @cached_property
    def jwk(self) -> ECKey:
        """The public half, as it is published. Its id is its RFC 7638 thumbprint."""
        bare = ECKey.import_key(self.private.public_key())
        return ECKey.import_key(self.private.public_key(), {"kid": bare.thumbprint(), "use": "sig", "alg": "ES256"})

    @cached_property
    def kid(self) -> str:
        return str(self.jwk.kid)


def new_key(*, now: datetime, active_from: datetime) -> Key:
    return Key(generate_private_key(SECP256R1()), now, active_from)


def states(keys: Sequence[Key], now: datetime) -> dict[str, KeyState]:
    """The state of each key, by its id, the oldest first."""
    ordered = sorted((key for key in keys if key.dropped_at is None), key=lambda key: key.active_from)
    found = {key.kid: KeyState.DROPPED for key in keys}
    for key, successor in zip_longest(ordered, ordered[1:]):
        found[key.kid] = _state(key, successor, now)
    return found


def _state(key: Key, successor: Key | None, now: datetime) -> KeyState:
    if now < key.active_from:
        return KeyState.NEXT
    if successor is None or now < successor.active_from:
        return KeyState.ACTIVE
    return KeyState.RETIRED if now < successor.active_from + RETENTION else KeyState.DROPPED


def signer(keys: Sequence[Key], now: datetime) -> Key | None:
    """The active key. Before any is active, by a clock that is behind its maker's, the first one there is."""
    found = states(keys, now)
    active = (key for key in keys if found[key.kid] is KeyState.ACTIVE)
    waiting = (key for key in keys if found[key.kid] is KeyState.NEXT)
    return next(active, None) or min(waiting, key=lambda key: key.active_from, default=None)


def published(keys: Sequence[Key], now: datetime) -> list[Key]:
    found = states(keys, now)
    return sorted((k for k in keys if found[k.kid] is not KeyState.DROPPED), key=lambda key: key.active_from)


def successor_due(keys: Sequence[Key], now: datetime) -> datetime | None:
    """When a key made now should begin to sign; None when none is due."""
    found = states(keys, now)
    if KeyState.NEXT in found.values():
        return None
    active = signer(keys, now)
    if active is None:
        return now
    ends = active.active_from + PERIOD
    return max(ends, now + ANNOUNCEMENT) if now >= ends - ANNOUNCEMENT else None
