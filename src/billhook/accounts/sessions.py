"""Console sessions: who is signed in, from where, since when. The token is the browser's; we keep a digest of it."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from sqlalchemy import Column, ForeignKey, Table, Text, delete, insert, select, update

from billhook.accounts.users import User, user_of, users
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id, new_id
from billhook.storage.types import Moment, metadata

IDLE = timedelta(hours=12)
SEEN_EVERY = timedelta(minutes=1)  # a write for each request would make every page wait for the disk
LONGEST_AGENT = 200
MOST_SESSIONS = 50  # of one user; the one that was idle longest gives way

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("user_id", Text, ForeignKey("users.id"), nullable=False, index=True),
    Column("created_at", Moment, nullable=False),
    Column("seen_at", Moment, nullable=False, index=True),
    Column("address", Text, nullable=False),
    Column("agent", Text, nullable=False),
)


@dataclass(frozen=True)
class Session:
    id: str
    created_at: datetime
    seen_at: datetime
    address: str
    agent: str


def digest_of(token: str) -> str:
    """A random text of 256 bits needs no salt and no slow hash."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


async def begin(tx: Transaction, user: User, *, address: str, agent: str, now: datetime) -> str:
    """The token of a new session."""
    token = secrets.token_urlsafe(32)
    readable = "".join(character for character in agent if character.isprintable())[:LONGEST_AGENT]
    row = {"user_id": user.id, "created_at": now, "seen_at": now, "address": address, "agent": readable}
    await tx.execute(insert(sessions).values(id=new_id("ses"), digest=digest_of(token), **row))
    newest = select(sessions.c.id).where(sessions.c.user_id == user.id).order_by(sessions.c.seen_at.desc())
    await tx.execute(
        delete(sessions).where(sessions.c.user_id == user.id, sessions.c.id.not_in(newest.limit(MOST_SESSIONS)))
    )
    return token


async def find(tx: Transaction, token: str, *, now: datetime) -> tuple[Session, User] | None:
    """Whose token it is, unless it was idle for too long."""
    is_theirs = (sessions.c.digest == digest_of(token), sessions.c.seen_at > now - IDLE)
    row = (await tx.execute(select(sessions).where(*is_theirs))).one_or_none()
    if row is None:
        return None
    owner = (await tx.execute(select(users).where(users.c.id == row.user_id))).one()
    return _session(row), user_of(owner)


async def mark_seen(tx: Transaction, session: Session, *, address: str, now: datetime) -> None:
    await tx.execute(update(sessions).where(sessions.c.id == session.id).values(seen_at=now, address=address))


async def list_sessions(tx: Transaction, user_id: str, *, now: datetime) -> list[Session]:
    query = select(sessions).where(sessions.c.user_id == user_id, sessions.c.seen_at > now - IDLE)
    return [_session(row) for row in await tx.execute(query.order_by(sessions.c.seen_at.desc()).limit(MOST_SESSIONS))]


async def end(tx: Transaction, user_id: str, session_id: str) -> None:
    if is_id(session_id):
        await tx.execute(delete(sessions).where(sessions.c.id == session_id, sessions.c.user_id == user_id))


async def end_all(tx: Transaction, user_id: str, *, but: str | None = None) -> None:
    """All of a user's; `but` one may stay."""
    await tx.execute(delete(sessions).where(sessions.c.user_id == user_id, sessions.c.id != (but or "")))


async def purge(tx: Transaction, *, now: datetime, limit: int) -> int:
    """Forget those that were idle for too long. At most `limit` at a time."""
    old = select(sessions.c.id).where(sessions.c.seen_at <= now - IDLE).limit(limit)
    return (await tx.execute(delete(sessions).where(sessions.c.id.in_(old)))).rowcount


def _session(row: object) -> Session:
    return Session(*(getattr(row, name) for name in ("id", "created_at", "seen_at", "address", "agent")))
