"""Locks by name that last until the end of the transaction."""

from collections.abc import Iterable

from sqlalchemy import Text, func, select

from billhook.storage.database import Transaction
from billhook.storage.rows import pack, rows


async def try_locks(tx: Transaction, names: Iterable[str]) -> set[str]:
    """Those of the names that nobody else holds; nothing is waited for. On SQLite there is but one writer anyway."""
    wanted = sorted(set(names))
    if tx.dialect.name == "sqlite" or not wanted:
        return set(wanted)
    given = rows(tx.dialect.name, "names", name=Text())
    lock = func.pg_try_advisory_xact_lock(func.hashtextextended(given.c.name, 0))
    tried = await tx.execute(select(given.c.name, lock.label("held")), {"names": pack([{"name": n} for n in wanted])})
    return {row.name for row in tried if row.held}
