"""What everything stands on: the database, its schema, its clock and its disk."""

import shutil
import time
from pathlib import Path

from sqlalchemy import select, text

from billhook.cli.doctor.finding import Finding, notice, problem, spoken, well
from billhook.settings import Settings
from billhook.storage.clock import now_ms
from billhook.storage.database import Database
from billhook.storage.migrate import check_schema, head_revision, is_empty

FAIR_SECONDS = 2.0  # apart: less is what networks and NTP leave
WRONG_SECONDS = 30.0  # apart: tokens of one machine would be too young for another
ROOM = 2 * 1024**3  # bytes: below it somebody should look
NO_ROOM = 200 * 1024**2  # bytes: a day of deliveries may need more
NTP = "Let both machines keep time by NTP: `timedatectl set-ntp true` on each, then `timedatectl status`."


async def database(db: Database) -> Finding:
    await db.ping()
    return well("database", f"SQLite, {db.reader.url.database}" if db.is_sqlite else "PostgreSQL answers")


def database_fix(settings: Settings) -> str:
    if settings.database_location.startswith("sqlite"):
        return "Give the user that runs Billhook the folder and the file to write, or name another BILLHOOK_DATA_DIR."
    return (
        "See that PostgreSQL runs and that BILLHOOK_DATABASE_URL names it: "
        '`psql "$BILLHOOK_DATABASE_URL" -c "SELECT 1"` must answer.'
    )


async def schema(db: Database) -> Finding:
    if db.is_sqlite and await is_empty(db):
        return well("schema", "empty: whoever comes first makes it")
    await check_schema(db)
    async with db.reading() as tx:
        found = str((await tx.execute(text("SELECT version_num FROM alembic_version"))).scalar_one())
    return judge_schema(found, head_revision())


def judge_schema(found: str, wanted: str) -> Finding:
    """One that fits."""
    if found == wanted:
        return well("schema", f"{found}, as this program wants it")
    return well("schema", f"{found}, newer than this program ({wanted}) and made for it as well")


async def clock(db: Database) -> Finding:
    async with db.reading() as tx:
        before = time.time()
        theirs = int((await tx.execute(select(now_ms()))).scalar_one()) / 1000
        after = time.time()
    return judge_clock(theirs - (before + after) / 2)


def judge_clock(ahead_seconds: float) -> Finding:
    """`ahead_seconds`: of the database's clock before ours. Leases go by its clock, tokens by ours."""
    apart = abs(ahead_seconds)
    if apart < FAIR_SECONDS:
        return well("clock", "the database's clock and this machine's agree")
    side = "ahead of" if ahead_seconds > 0 else "behind"
    found = f"the database's clock is {spoken(apart)} {side} this machine's"
    return (problem if apart >= WRONG_SECONDS else notice)("clock", found, fix=NTP)


def disk(db: Database) -> Finding:
    folder = Path(db.reader.url.database or ".").resolve().parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return problem("disk", f"{folder}: {error.strerror}", fix=f"Make the folder {folder}, for Billhook to write.")
    return judge_disk(free, str(folder))


def judge_disk(free: int, folder: str) -> Finding:
    found = f"{free / 1024**3:,.1f} GiB are free in {folder}"
    fix = (
        "Make room there, or keep less: lower BILLHOOK_RETENTION_DAYS and restart; a full disk answers sends with 503."
    )
    if free < NO_ROOM:
        return problem("disk", f"only {free / 1024**2:,.0f} MiB are free in {folder}", fix=fix)
    return notice("disk", f"only {found}", fix=fix) if free < ROOM else well("disk", found)
