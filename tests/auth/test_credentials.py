"""Why credentials are refused: told apart for the audit, never for the caller."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from billhook.auth.credentials import Refused, check
from billhook.auth.registry import ANYWHERE, KnownClient, KnownSecret, read_origins
from billhook.auth.secret import digester, new_secret

NOW = time.time()
DIGEST = digester(b"p" * 32)
SECRET = new_secret()
CLIENT = KnownClient("cli_1", "org_1", "groups:read", 3600, ANYWHERE, is_active=True, epoch=0, not_before=0)
HELD = KnownSecret(SECRET.id, CLIENT.id, DIGEST(SECRET.text), float("inf"))


class Memory:
    """As much of a registry as a check looks at."""

    def __init__(self, client: KnownClient = CLIENT, secret: KnownSecret = HELD) -> None:
        self.clients = {client.id: client, "cli_2": replace(CLIENT, id="cli_2")}
        self.secrets = {secret.id: secret}


def verdict(memory: Memory, *, client_id: str = CLIENT.id, secret: str = SECRET.text) -> Refused | None:
    return check(memory, DIGEST, client_id=client_id, client_secret=secret, address="192.0.2.1", now=NOW).refused


def test_the_right_secret_of_an_active_client_is_accepted() -> None:
    assert verdict(Memory()) is None


@pytest.mark.parametrize(
    ("memory", "client_id", "secret", "reason"),
    [
        (Memory(), "cli_nobody", SECRET.text, Refused.UNKNOWN),
        (Memory(), "", SECRET.text, Refused.UNKNOWN),
        (Memory(), CLIENT.id, SECRET.text[:-1], Refused.SECRET),
        (Memory(), CLIENT.id, new_secret().text, Refused.SECRET),
        (Memory(), CLIENT.id, "", Refused.SECRET),
        (Memory(), "cli_2", SECRET.text, Refused.SECRET),
        (Memory(replace(CLIENT, is_active=False)), CLIENT.id, SECRET.text, Refused.REVOKED),
        (Memory(secret=replace(HELD, ends_at=NOW)), CLIENT.id, SECRET.text, Refused.ENDED),
        (Memory(replace(CLIENT, origins=read_origins("10.0.0.0/8"))), CLIENT.id, SECRET.text, Refused.ADDRESS),
    ],
    ids=lambda value: value if isinstance(value, Refused) else "",  # else the secret of this run would be in the name
)
def test_the_first_thing_that_is_wrong_is_the_reason(
    memory: Memory, client_id: str, secret: str, reason: Refused
) -> None:
    assert verdict(memory, client_id=client_id, secret=secret) is reason


def test_each_secret_is_judged_by_its_own_end() -> None:
    ends = NOW + timedelta(hours=1).total_seconds()
    assert verdict(Memory(secret=replace(HELD, ends_at=ends))) is None
