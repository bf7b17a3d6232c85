"""A copy of a SQLite database, whole and consistent, made while others read and write it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from billhook.errors import Refusal, Unavailable
from billhook.storage.files import sync

BUSY_SECONDS = 10.0


def back_up(source: Path, target: Path) -> int:
    """Write the copy to `target`, which must not exist; its size in bytes. It is whole, or it is not there.

    VACUUM INTO reads one snapshot and, with WAL, keeps no writer waiting. What was deleted stays behind.
    """
    if not source.exists():
        raise Refusal(f"there is no database at {source}")
    if target.exists():
        raise Refusal(_there_already(target))
    draft = target.with_name(f"{target.name}.part")
    try:
        draft.unlink(missing_ok=True)  # of one that was killed
        _make(draft)
        try:
            _copy(source, draft)
            os.link(draft, target)  # unlike a rename, this never takes the place of another
        finally:
            draft.unlink()
        sync(target.parent)
    except FileExistsError:
        raise Refusal(_there_already(target)) from None
    except OSError as error:
        raise Refusal(f"cannot write the backup {target}: {error.strerror}") from None
    return target.stat().st_size


def _there_already(target: Path) -> str:
    return f"{target} is there already: a backup never overwrites one"


def _make(path: Path) -> None:
    """Empty, and for its owner only: SQLite would make it readable for everybody."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _copy(source: Path, draft: Path) -> None:
    try:
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as db:
            db.execute("VACUUM INTO ?", (str(draft),))
        with closing(sqlite3.connect(draft)) as copy:
            (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise Unavailable(f"the database cannot be copied: {error}") from None
    if found != "ok":
        raise Unavailable(f"the copy of the database is damaged: {found}")
    sync(draft)
