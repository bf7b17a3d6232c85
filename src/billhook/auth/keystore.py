"""SQL of the signing keys. Private halves are encrypted with the master key, each bound to its key id."""

from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from sqlalchemy import Column, LargeBinary, Table, Text, delete, insert, select, update

from billhook.accounts.audit import Actor, note
from billhook.auth.keys import ANNOUNCEMENT, Key, KeyState, new_key, states, successor_due
from billhook.storage import feed
from billhook.storage.database import Database, Transaction
from billhook.storage.types import Moment, metadata
from billhook.storage.vault import Vault

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("kid", Text, primary_key=True),
    Column("private_key", LargeBinary, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("active_from", Moment, nullable=False),
    Column("dropped_at", Moment),
)


async def load_keys(tx: Transaction, vault: Vault) -> list[Key]:
    rows = await tx.execute(select(signing_keys).order_by(signing_keys.c.active_from))
    return [
        Key(_open(vault, row.kid, row.private_key), row.created_at, row.active_from, row.dropped_at) for row in rows
    ]


async def keep_rotating(db: Database, vault: Vault, keys: list[Key], *, now: datetime) -> bool:
    """Make the first key or the next one when it is due, and forget dropped ones. True when anything changed.

    `keys` is what this process last saw. Whoever comes second finds, under the feed's lock, that nothing is due now.
    """
    if not _work_is_due(keys, now):
        return False
    async with db.transaction() as tx:
        await feed.advance(tx)
        seen = await load_keys(tx, vault)
        if active_from := successor_due(seen, now):
            key = new_key(now=now, active_from=active_from)
            await _insert(tx, vault, key)
            await note(tx, Actor("system"), "key.announced", subject=key.kid, now=now)
        await _forget(tx, [kid for kid, state in states(seen, now).items() if state is KeyState.DROPPED])
    return True


async def announce_next(tx: Transaction, vault: Vault, *, actor: Actor, now: datetime) -> bool:
    """Begin a rotation before its time: the next key signs after the announcement. False when one already waits."""
    await feed.advance(tx)
    if KeyState.NEXT in states(await load_keys(tx, vault), now).values():
        return False
    key = new_key(now=now, active_from=now + ANNOUNCEMENT)
    await _insert(tx, vault, key)
    await note(tx, actor, "key.announced", subject=key.kid, now=now)
    return True


async def replace_at_once(tx: Transaction, vault: Vault, *, actor: Actor, now: datetime) -> None:
    """The emergency: a fresh key signs from now on; all others are dropped, and with them every token they signed."""
    await feed.advance(tx)
    await tx.execute(update(signing_keys).where(signing_keys.c.dropped_at.is_(None)).values(dropped_at=now))
    key = new_key(now=now, active_from=now)
    await _insert(tx, vault, key)
    await note(tx, actor, "key.replaced", subject=key.kid, now=now)


async def reseal_keys(tx: Transaction, vault: Vault) -> int:
    """Encrypt all of them again, under the master key that the vault writes with. How many there were."""
    await feed.advance(tx)
    rows = (await tx.execute(select(signing_keys.c.kid, signing_keys.c.private_key))).all()
    for row in rows:
        sealed = vault.reseal(row.private_key, context=_place_of(row.kid))
        await tx.execute(update(signing_keys).where(signing_keys.c.kid == row.kid).values(private_key=sealed))
    return len(rows)


def _work_is_due(keys: list[Key], now: datetime) -> bool:
    return successor_due(keys, now) is not None or KeyState.DROPPED in states(keys, now).values()


async def _insert(tx: Transaction, vault: Vault, key: Key) -> None:
    values = {"kid": key.kid, "created_at": key.created_at, "active_from": key.active_from}
    await tx.execute(insert(signing_keys).values(**values, private_key=_seal(vault, key)))


async def _forget(tx: Transaction, kids: list[str]) -> None:
    await tx.execute(delete(signing_keys).where(signing_keys.c.kid.in_(kids)))


def _seal(vault: Vault, key: Key) -> bytes:
    plain = key.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return vault.encrypt(plain, context=_place_of(key.kid))


def _place_of(kid: str) -> str:
    return f"signing key {kid}"


def _open(vault: Vault, kid: str, sealed: bytes) -> EllipticCurvePrivateKey:
    key = load_der_private_key(vault.decrypt(sealed, context=_place_of(kid)), password=None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return key
