"""Single tokens that were revoked before their end, kept until then."""

from datetime import datetime

from sqlalchemy import BigInteger, Column, Table, Text, delete, insert, select

from billhook.accounts.audit import Actor, note
from billhook.storage import feed
from billhook.storage.database import Transaction
from billhook.storage.types import Moment, metadata

revoked_tokens = Table(
    "revoked_tokens",
    metadata,
    Column("jti", Text, primary_key=True),
    Column("expires_at", Moment, nullable=False, index=True),
    Column("version", BigInteger, nullable=False, index=True),
)


async def revoke_token(tx: Transaction, jti: str, *, expires_at: datetime, actor: Actor, now: datetime) -> None:
    """End one token before its time. Doing it again changes nothing."""
    version = await feed.advance(tx)
    known = await tx.execute(select(revoked_tokens.c.jti).where(revoked_tokens.c.jti == jti))
    if known.one_or_none() is None:
        await tx.execute(insert(revoked_tokens).values(jti=jti, expires_at=expires_at, version=version))
        await note(tx, actor, "token.revoked", subject=jti, now=now)


async def purge_revoked(tx: Transaction, *, now: datetime, limit: int) -> int:
    """Forget tokens that have expired by themselves. At most `limit` at a time."""
    expired = select(revoked_tokens.c.jti).where(revoked_tokens.c.expires_at < now).limit(limit)
    return (await tx.execute(delete(revoked_tokens).where(revoked_tokens.c.jti.in_(expired)))).rowcount
