"""Rotate the master key: begin, encrypt again what is encrypted, step by step, and finish. Killed, it is run again."""

from dataclasses import dataclass
from pathlib import Path

from billhook.accounts import keyring
from billhook.accounts.audit import Actor
from billhook.accounts.installation import find_keys
from billhook.accounts.keyring import Standing
from billhook.auth.keystore import reseal_keys
from billhook.cli.session import now
from billhook.errors import Refusal
from billhook.groups.store import reseal_providers
from billhook.settings import Settings
from billhook.storage.database import Database, open_database
from billhook.storage.master_key import create_master_key, move_on, next_file, previous_file
from billhook.storage.migrate import check_schema
from billhook.storage.vault import Vault

STEP = 200  # providers of one transaction: some tens of milliseconds
HOW = (
    "set BILLHOOK_MASTER_KEY to the new key (`openssl rand -base64 32` makes one)"
    " and BILLHOOK_OTHER_MASTER_KEY to the present one"
)


@dataclass(frozen=True)
class Rotated:
    signing_keys: int
    providers: int
    previous_file: Path | None  # where the old key is kept until nobody needs it, when it is in a file
    was_done: bool  # it is the master key already: only what somebody wrote since with the old one was left


async def rotate_master(settings: Settings, *, actor: Actor) -> Rotated:
    """Everything under the new master key; the old one opens nothing any more."""
    db = open_database(settings.database_location)
    try:
        await check_schema(db)
        async with db.reading() as tx:
            standing = await keyring.read_standing(tx)
        if standing is None:
            raise Refusal("there is nothing to rotate yet: nothing is stored under a master key")
        is_in_file = not settings.master_key.get_secret_value().strip()
        keys = find_keys(settings)
        target = _next_of_files(settings, keys, standing) if is_in_file else _next_of_settings(keys, standing)
        was_done = Vault(target).fingerprint == standing.fingerprint
        vault, signing, providers = await _reseal(db, [target, *keys], actor=actor)
        if is_in_file:
            move_on(settings)  # before the end is noted: until then whoever starts looks for both
        if not was_done:
            async with db.transaction() as tx:
                await keyring.finish(tx, vault, actor=actor, now=now(), signing_keys=signing, providers=providers)
        return Rotated(signing, providers, previous_file(settings) if is_in_file else None, was_done)
    finally:
        await db.close()


def _next_of_settings(keys: list[str], standing: Standing) -> str:
    fingerprints = [Vault(key).fingerprint for key in keys]
    if len(set(fingerprints)) < 2:
        raise Refusal(f"there is but one master key here: {HOW}")
    if standing.fingerprint not in fingerprints:
        raise Refusal(f"neither of the two master keys is the one this database was made with: {HOW}")
    return keys[0]


def _next_of_files(settings: Settings, keys: list[str], standing: Standing) -> str:
    """The one that was made when this was begun, or a new one."""
    by_fingerprint = {Vault(key).fingerprint: key for key in keys}
    if standing.fingerprint not in by_fingerprint:
        raise Refusal("the master key is not the one this database was made with: what it holds cannot be read")
    if standing.next is not None and standing.next in by_fingerprint:
        return by_fingerprint[standing.next]
    return create_master_key(next_file(settings))


async def _reseal(db: Database, keys: list[str], *, actor: Actor) -> tuple[Vault, int, int]:
    """The first key is the new one. What it was done to: signing keys and providers."""
    async with db.transaction() as tx:
        vault = await keyring.begin(tx, keys, keys[0], actor=actor, now=now())
    async with db.transaction() as tx:
        signing = await reseal_keys(tx, vault)
    return vault, signing, await _reseal_all_providers(db, vault)


async def _reseal_all_providers(db: Database, vault: Vault) -> int:
    """In the order of their ids: one that is added meanwhile is written under the new key by whoever adds it."""
    count, after, done = 0, "", [""]
    while done:
        async with db.transaction() as tx:
            done = await reseal_providers(tx, vault, after=after, limit=STEP)
        count, after = count + len(done), done[-1] if done else after
    return count
