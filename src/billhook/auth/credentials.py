"""Is this client who it says it is? One answer, with the same work whatever is wrong. Pure: memory in, verdict out."""

from enum import StrEnum
from hmac import compare_digest
from typing import NamedTuple, Protocol

from billhook.auth.origins import is_within
from billhook.auth.registry import ANYWHERE, KnownClient, KnownSecret
from billhook.auth.secret import Digest, id_of

# Stand in for what does not exist, so that a check never ends early.
NOBODY = KnownClient("", "", "", 0, ANYWHERE, is_active=False, epoch=0, not_before=0)
NOTHING = KnownSecret("", "", bytes(32), 0.0)


class Memory(Protocol):
    """As much of the registry as a check looks at."""

    clients: dict[str, KnownClient]
    secrets: dict[str, KnownSecret]


class Refused(StrEnum):
    UNKNOWN = "unknown-client"
    SECRET = "wrong-secret"  # noqa: S105 - a reason, not a secret
    ENDED = "ended-secret"
    REVOKED = "revoked-client"
    ADDRESS = "address-not-allowed"


class Verdict(NamedTuple):
    client: KnownClient
    secret_id: str
    refused: Refused | None


def check(memory: Memory, digest: Digest, *, client_id: str, client_secret: str, address: str, now: float) -> Verdict:
    """Every condition is evaluated every time; only afterwards is the first that failed picked."""
    client = memory.clients.get(client_id, NOBODY)
    secret = memory.secrets.get(id_of(client_secret), NOTHING)
    matches = compare_digest(digest(client_secret), secret.digest)
    belongs = secret.client_id == client_id
    is_live = now < secret.ends_at
    is_near = is_within(client.origins, address)
    refused = (
        (Refused.UNKNOWN if client is NOBODY else None)
        or (None if matches and belongs else Refused.SECRET)
        or (None if client.is_active else Refused.REVOKED)
        or (None if is_live else Refused.ENDED)
        or (None if is_near else Refused.ADDRESS)
    )
    return Verdict(client, secret.id, refused)
