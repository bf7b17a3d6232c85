"""billhook keys …"""

import asyncio
from typing import Annotated, Any

import typer

from billhook import log
from billhook.accounts.installation import Installation
from billhook.auth.keys import Key, states
from billhook.auth.keystore import announce_next, keep_rotating, load_keys, replace_at_once
from billhook.cli.doctor.finding import several
from billhook.cli.output import Json, show, table
from billhook.cli.rotation import HOW, Rotated, rotate_master
from billhook.cli.session import now, on_installation, operator
from billhook.settings import read_settings

app = typer.Typer(
    help="The keys that sign tokens, which rotate by themselves; and the master key.", no_args_is_help=True
)

EMERGENCY_HELP = "Replace the key at once: every token issued so far stops counting."


@app.command("list")
def list_keys(as_json: Json = False) -> None:
    """The signing keys and what each one is doing."""

    async def work(installation: Installation) -> list[Key]:
        async with installation.db.reading() as tx:
            return await load_keys(tx, installation.vault)

    _show(on_installation(work), as_json=as_json)


@app.command()
def rotate(emergency: Annotated[bool, typer.Option(help=EMERGENCY_HELP)] = False, as_json: Json = False) -> None:
    """Announce the next key now; it signs after 24 hours, when everybody has seen it."""

    async def work(installation: Installation) -> list[Key]:
        db, vault = installation.db, installation.vault
        await keep_rotating(db, vault, [], now=now())
        async with db.transaction() as tx:
            change = replace_at_once if emergency else announce_next
            await change(tx, vault, actor=operator(), now=now())
        async with db.reading() as tx:
            return await load_keys(tx, vault)

    _show(on_installation(work), as_json=as_json)


@app.command("rotate-master")
def rotate_master_key(as_json: Json = False) -> None:
    """Encrypt everything that is stored under a new master key. Run it again if it was interrupted."""
    settings = read_settings()
    log.configure("error", settings.log_format)
    done = asyncio.run(rotate_master(settings, actor=operator()))
    document: dict[str, object] = {
        "signing_keys": done.signing_keys,
        "providers": done.providers,
        "was_done": done.was_done,
    }
    document["previous_file"] = str(done.previous_file) if done.previous_file else None
    show(document, text=_told(done), as_json=as_json)


def _told(done: Rotated) -> str:
    keys = several(done.signing_keys, "signing key", "signing keys")
    counts = f"{keys} and the settings of {several(done.providers, 'provider', 'providers')}"
    if done.was_done:
        again = f"{counts} were encrypted under it once more"
        return f"BILLHOOK_MASTER_KEY was the master key already; {again}.\nTo rotate, {HOW}."
    if done.previous_file:
        rest = f"Restart whatever serves now, then delete {done.previous_file}: it opens nothing any more."
    else:
        rest = "Restart whatever serves without BILLHOOK_OTHER_MASTER_KEY: that key opens nothing any more."
    return f"Done: {counts} are encrypted under the new master key.\n{rest}"


def _show(keys: list[Key], *, as_json: bool) -> None:
    found = states(keys, now())
    documents: list[dict[str, Any]] = [
        {"kid": key.kid, "state": found[key.kid], "created_at": key.created_at, "active_from": key.active_from}
        for key in keys
    ]
    rows = [(item["kid"], item["state"], item["active_from"]) for item in documents]
    text = table(["KEY ID", "STATE", "SIGNS FROM"], rows) if rows else "No keys yet: the first start makes one."
    show(documents, text=text, as_json=as_json)
