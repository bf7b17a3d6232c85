"""billhook doctor"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from billhook import log
from billhook.accounts.installation import open_installation
from billhook.auth.keys import signer
from billhook.auth.keystore import load_keys
from billhook.cli.output import Json, show, table
from billhook.errors import BillhookError
from billhook.settings import Settings, read_settings
from billhook.storage.database import open_database
from billhook.storage.migrate import check_schema, head_revision, is_empty

Finding = tuple[str, bool, str]  # what was looked at, whether it is well, and what was found


def doctor(as_json: Json = False) -> None:
    """Look the installation over and say what is wrong. Changes nothing but what a first start makes."""
    settings = read_settings()
    log.configure("error", settings.log_format)
    findings = asyncio.run(_examine(settings))
    rows = [(name, "well" if well else "PROBLEM", found) for name, well, found in findings]
    document = [{"check": name, "ok": well, "message": found} for name, well, found in findings]
    show(document, text=table(["CHECK", "STATE", "FOUND"], rows), as_json=as_json)
    if not all(well for _, well, _ in findings):
        raise SystemExit(1)


async def _examine(settings: Settings) -> list[Finding]:
    """Each check stands on the one before, so the first problem ends the examination."""
    findings: list[Finding] = []
    for name, check in (("database", _database), ("schema", _schema), ("master key and signing keys", _keys)):
        findings.append(await _finding(name, check, settings))
        if not findings[-1][1]:
            break
    return findings


async def _finding(name: str, check: Callable[[Settings], Awaitable[str]], settings: Settings) -> Finding:
    try:
        return name, True, await check(settings)
    except BillhookError as error:
        return name, False, f"{error.message} ({error.detail})" if error.detail else error.message


async def _database(settings: Settings) -> str:
    db = open_database(settings.database_location)
    try:
        await db.ping()
    finally:
        await db.close()
    return f"SQLite, {db.reader.url.database}" if db.is_sqlite else "PostgreSQL answers"


async def _schema(settings: Settings) -> str:
    db = open_database(settings.database_location)
    try:
        if db.is_sqlite and await is_empty(db):
            return "empty: whoever comes first makes it"
        await check_schema(db)
    finally:
        await db.close()
    return head_revision()


async def _keys(settings: Settings) -> str:
    async with open_installation(settings) as installation, installation.db.reading() as tx:
        keys = await load_keys(tx, installation.vault)
    key = signer(keys, datetime.now(UTC))
    return f"{len(keys)} signing keys, {key.kid} signs" if key else "no signing key yet: the first start makes one"
