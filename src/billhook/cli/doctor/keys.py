"""The master key, the signing keys and the secrets of clients: whether they fit, and whether their time is up."""

from datetime import UTC, datetime, timedelta

from billhook.accounts.installation import Installation
from billhook.accounts.keyring import read_standing
from billhook.auth.keys import PERIOD, KeyState, signer, states
from billhook.auth.keystore import load_keys
from billhook.auth.store import secrets_about_to_end
from billhook.cli.doctor.finding import Finding, named, notice, problem, several, spoken, well
from billhook.settings import Settings
from billhook.storage.database import Database
from billhook.storage.master_key import find_other_master_keys, next_file, previous_file

OVERDUE = timedelta(days=1)  # processes that serve look every few minutes
SOON = timedelta(days=1)
MOST = 10
SIGNING_FIX = (
    "Restore the database from a backup, or give the damaged keys up with `billhook keys rotate --emergency`: "
    "every token issued so far then stops counting."
)


async def master_key(installation: Installation) -> Finding:
    """It is known to fit by now."""
    async with installation.db.reading() as tx:
        standing = await read_standing(tx)
    if standing is not None and standing.next is not None:
        fix = "Run `billhook keys rotate-master` again, to its end, with both keys."
        return problem("master key", "it is being rotated, and whoever began that did not come to its end", fix=fix)
    if standing is not None and standing.fingerprint == installation.vault.fingerprint:
        return judge_key(installation.settings)
    fix = "Once all processes run like this: `billhook keys rotate-master`."
    return notice("master key", "BILLHOOK_MASTER_KEY is to become the master key, and is not yet", fix=fix)


def judge_key(settings: Settings) -> Finding:
    """By where it is, and what lies about beside it."""
    path = settings.master_key_file
    is_set = bool(settings.master_key.get_secret_value().strip())
    # Without the file it is one of those beside it: whoever moved the files was stopped in the middle.
    if not is_set and path.exists() and (mode := path.stat().st_mode & 0o777) & 0o077:
        found = f"fits the database, but others on this machine can read it: {path} has mode {mode:o}"
        return problem("master key", found, fix=f"Run `chmod 600 {path}`.")
    if find_other_master_keys(settings):
        left = "BILLHOOK_OTHER_MASTER_KEY" if is_set else f"{previous_file(settings)} or {next_file(settings)}"
        fix = f"If no rotation is planned and all processes have been restarted since the last, do away with {left}."
        return notice("master key", "fits the database; another key is here beside it", fix=fix)
    if is_set:
        return well("master key", "fits the database; it comes from BILLHOOK_MASTER_KEY")
    return well("master key", f"fits the database; keep a copy of {path} apart from it")


def master_key_fix(settings: Settings) -> str:
    return (
        "Set BILLHOOK_MASTER_KEY to the key that this database belongs to, "
        f"or restore {settings.master_key_file} from your backup."
    )


async def signing_keys(installation: Installation) -> Finding:
    async with installation.db.reading() as tx:
        keys = await load_keys(tx, installation.vault)
    now = datetime.now(UTC)
    key = signer(keys, now)
    if key is None:
        return well("signing keys", "none yet: the first start makes one")
    late = now - (key.active_from + PERIOD)
    if late > OVERDUE and KeyState.NEXT not in states(keys, now).values():
        found = f"the key that signs should have been followed by another {spoken(late)} ago"
        fix = "Start `billhook serve` or `billhook api`, which rotate it by themselves, or run `billhook keys rotate`."
        return notice("signing keys", found, fix=fix)
    return well("signing keys", f"{several(len(keys), 'key', 'keys')}; {key.kid} signs")


async def client_secrets(db: Database) -> Finding:
    now = datetime.now(UTC)
    async with db.reading() as tx:
        ending = await secrets_about_to_end(tx, now=now, within=SOON, limit=MOST + 1)
    if not ending:
        return well("client secrets", "none that is in use ends within a day")
    clients = named([f"{row.client_id} ({row.name}, in {spoken(row.ends_at - now)})" for row in ending])
    count = several(len(ending), "secret that is in use ends", "secrets that are in use end", most=MOST)
    fix = (
        "Have the newest secret put in place there before then; "
        f"`billhook client show {ending[0].client_id}` tells when each was last used."
    )
    return notice("client secrets", f"{count} within a day: {clients}", fix=fix)
