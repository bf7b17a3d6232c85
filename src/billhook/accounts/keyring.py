"""Which master key the installation stands under, and how it comes to stand under another.

A rotation is begun, done and finished. While it is under way the row has both fingerprints, and nobody works on the
database who does not have both keys. What was derived from the first key and cannot change, since only digests made
with it are stored, is kept from then on: as it is, encrypted under the new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, Integer, LargeBinary, Table, Text, delete, insert, select, update

from billhook.accounts.audit import Actor, note
from billhook.errors import Refusal
from billhook.storage import feed
from billhook.storage.database import Transaction
from billhook.storage.types import Moment, metadata
from billhook.storage.vault import Vault
from billhook.storage.watch import Reason

KEPT = ("client secrets",)  # the pepper: secrets are stored as digests made with it, and nowhere else
SUBJECT = "master-key"

installation = Table(
    "installation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("master_key_fingerprint", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("next_fingerprint", Text),  # while the master key is rotated
)

kept_secrets = Table(
    "kept_secrets",
    metadata,
    Column("purpose", Text, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
)


@dataclass(frozen=True)
class Standing:
    """Fingerprints of the master key, and of the next one while a rotation is under way."""

    fingerprint: str
    next: str | None


async def read_standing(tx: Transaction) -> Standing | None:
    """None: nobody has worked on this database yet."""
    row = (await tx.execute(select(installation).where(installation.c.id == 1))).one_or_none()
    return Standing(row.master_key_fingerprint, row.next_fingerprint) if row else None


def outdated(vault: Vault, began: Standing) -> Reason:
    """Whether the master key was rotated since the vault was opened, and would be written with under the wrong one."""

    async def look(tx: Transaction) -> str | None:
        standing = await read_standing(tx)
        if standing is None or standing == began or vault.fingerprint == (standing.next or standing.fingerprint):
            return None
        return "the master key was rotated, and this process works with the old one: start it with the new one"

    return look


async def open_vault(tx: Transaction, keys: Sequence[str], standing: Standing) -> Vault:
    """Written with the first key, or with the next one while a rotation is under way; read with all of them."""
    by_fingerprint = {Vault(key).fingerprint: key for key in keys}
    if standing.next is not None and not {standing.fingerprint, standing.next} <= by_fingerprint.keys():
        raise Refusal(
            "the master key is being rotated, and one of the two keys is not here: set BILLHOOK_MASTER_KEY to the new"
            " and BILLHOOK_OTHER_MASTER_KEY to the old one, and run `billhook keys rotate-master` to its end"
        )
    if standing.fingerprint not in by_fingerprint:
        raise Refusal("the master key is not the one this database was made with: what it holds cannot be read")
    first = by_fingerprint[standing.next] if standing.next is not None else keys[0]
    others = [key for key in keys if key != first]
    return Vault(first, *others, kept=await _kept(tx, Vault(first, *others), by_fingerprint[standing.fingerprint]))


async def _kept(tx: Transaction, ring: Vault, present: str) -> dict[str, bytes]:
    """What outlives the key it was derived from. Until a first rotation that is derived from the present key."""
    derived = {purpose: Vault(present).derive(purpose) for purpose in KEPT}
    rows = await tx.execute(select(kept_secrets))
    return derived | {row.purpose: ring.decrypt(row.sealed, context=_place_of(row.purpose)) for row in rows}


async def begin(tx: Transaction, keys: Sequence[str], target: str, *, actor: Actor, now: datetime) -> Vault:
    """From now on `target` is the next master key. Beginning again what was begun goes on with it."""
    await feed.advance(tx)  # one at a time
    standing = await read_standing(tx)
    if standing is None:
        raise Refusal("there is nothing to rotate yet: nothing is stored under a master key")
    wanted = Vault(target).fingerprint
    if standing.next not in (None, wanted):
        raise Refusal("a rotation to another master key is under way: finish it with that key first")
    if wanted == standing.fingerprint:  # it was finished; what a straggler wrote since under the old key is left to do
        return await open_vault(tx, [target, *keys], standing)
    vault = await open_vault(tx, [target, *keys], Standing(standing.fingerprint, wanted))
    if standing.next is None:
        await tx.execute(update(installation).values(next_fingerprint=wanted))
        await note(tx, actor, "master-key.rotation-begun", subject=SUBJECT, now=now)
    await _keep(tx, vault)
    return vault


async def _keep(tx: Transaction, vault: Vault) -> None:
    for purpose in KEPT:
        sealed = vault.encrypt(vault.derive(purpose), context=_place_of(purpose))
        await tx.execute(delete(kept_secrets).where(kept_secrets.c.purpose == purpose))
        await tx.execute(insert(kept_secrets).values(purpose=purpose, sealed=sealed))


async def finish(tx: Transaction, vault: Vault, *, actor: Actor, now: datetime, **counts: int) -> None:
    """All is encrypted under the new key: it is the master key from now on."""
    await feed.advance(tx)
    values = {"master_key_fingerprint": vault.fingerprint, "next_fingerprint": None}
    await tx.execute(update(installation).values(**values))
    await note(tx, actor, "master-key.rotated", subject=SUBJECT, now=now, **counts)


def _place_of(purpose: str) -> str:
    return f"kept secret {purpose}"
