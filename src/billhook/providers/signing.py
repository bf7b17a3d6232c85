"""Signatures after Standard Webhooks: HMAC-SHA256 over `id.timestamp.payload`, one for each live secret."""

import hmac
import re
import secrets as dice
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache

PREFIX = "whsec_"
TOLERANCE_SECONDS = 300  # what Standard Webhooks' own libraries allow
SECRET_BYTES = 32  # Standard Webhooks asks for 24 to 64


def new_signing_secret() -> str:
    return PREFIX + b64encode(dice.token_bytes(SECRET_BYTES)).decode()


def is_signing_secret(text: str) -> bool:
    try:
        return text.startswith(PREFIX) and bool(b64decode(text.removeprefix(PREFIX), validate=True))
    except ValueError:  # no base64, or not even ASCII
        return False


def signature(secrets: Sequence[str], webhook_id: str, timestamp: int, payload: bytes) -> str:
    """`v1,…` for each secret, with a space between: a receiver may know any one of them."""
    signed = f"{webhook_id}.{timestamp}.".encode() + payload
    return " ".join([f"v1,{b64encode(hmac.digest(_key(secret), signed, 'sha256')).decode()}" for secret in secrets])


def verify(secret: str, headers: Mapping[str, str], payload: bytes, *, now: float) -> str | None:
    """What is wrong with a request that says it comes from us, or None: as a receiver checks it."""
    webhook_id, sent_at, given = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (webhook_id and sent_at and given):
        return "it is not signed"
    if not re.fullmatch(r"[0-9]{1,12}", sent_at) or abs(now - int(sent_at)) > TOLERANCE_SECONDS:
        return "its timestamp is too far from now"
    expected = signature([secret], webhook_id, int(sent_at), payload)
    if not any(hmac.compare_digest(expected.encode(), one.encode()) for one in given.split()):
        return "its signature is not made with this secret"
    return None


@lru_cache(maxsize=16_384)
def _key(secret: str) -> bytes:
    return b64decode(secret.removeprefix(PREFIX))
