"""The change feed: one counter that every change of cached rows moves, so that others see it by one small read.

A writer moves the counter in the transaction of its change and stamps the rows with it. The counter's row lock puts
writers in order, so whoever reads counter N can read every row stamped N or less.
"""

from sqlalchemy import BigInteger, Column, Integer, Table, select, update

from billhook.storage.database import Transaction
from billhook.storage.types import metadata

feed = Table(
    "feed",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)


async def advance(tx: Transaction) -> int:
    """Take the next version. Call it before the change: it also makes concurrent changers wait for each other."""
    moved = await tx.execute(
        update(feed).where(feed.c.id == 1).values(version=feed.c.version + 1).returning(feed.c.version)
    )
    return int(moved.scalar_one())


async def current(tx: Transaction) -> int:
    return int((await tx.execute(select(feed.c.version).where(feed.c.id == 1))).scalar_one())
