"""Users: people who sign in to the console."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Column, ForeignKey, Row, Table, Text, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from billhook.accounts.audit import Actor, note
from billhook.errors import InvalidParameters, UserConflict, UserNotFound
from billhook.storage import feed
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id, new_id
from billhook.storage.types import Moment, metadata

EMAIL = re.compile(
    r"[^@\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+@[^@\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+"
)  # whether it can receive mail, only mail can tell
LONGEST_EMAIL = 254  # RFC 5321

users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("organization_id", Text, ForeignKey("organizations.id"), nullable=False),
    Column("email", Text, nullable=False, unique=True),
    Column("password_hash", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("theme", Text, nullable=False, server_default="auto"),
)


class Role(StrEnum):
    ADMIN = "admin"  # may change everything of the organization
    VIEWER = "viewer"  # may look


class Theme(StrEnum):
    """How the console looks to this person."""

    AUTO = "auto"  # as the browser wishes
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True)
class User:
    id: str
    organization_id: str
    email: str
    role: Role
    created_at: datetime
    theme: Theme = Theme.AUTO


async def create_user(
    tx: Transaction, organization_id: str, *, email: str, password_hash: str, role: Role, actor: Actor, now: datetime
) -> User:
    user = User(new_id("usr"), organization_id, normal_email(email), role, now)
    row = {"id": user.id, "organization_id": organization_id, "email": user.email, "role": role, "created_at": now}
    try:
        await tx.execute(insert(users).values(**row, password_hash=password_hash))
    except IntegrityError:
        raise UserConflict(f"there is already a user {user.email}") from None
    await note(tx, actor, "user.created", subject=user.id, now=now, email=user.email, role=role)
    return user


def normal_email(email: str) -> str:
    """Addresses that differ only in case name one person."""
    normal = email.strip().lower()
    if len(normal) > LONGEST_EMAIL or not EMAIL.fullmatch(normal):
        raise InvalidParameters.of("email", "must be an email address")
    return normal


async def are_there_users(tx: Transaction) -> bool:
    return (await tx.execute(select(users.c.id).limit(1))).first() is not None


async def find_by_email(tx: Transaction, email: str) -> tuple[User, str] | None:
    """The user and the hash of the password."""
    row = (await tx.execute(select(users).where(users.c.email == email))).one_or_none()
    return None if row is None else (user_of(row), row.password_hash)


async def still_has(tx: Transaction, user: User, password_hash: str) -> bool:
    """And it stays so until the end of the transaction."""
    query = select(users.c.password_hash).where(users.c.id == user.id).with_for_update()
    return (await tx.execute(query)).scalar_one_or_none() == password_hash


async def get_user(tx: Transaction, user_id: str, organization_id: str) -> User:
    query = select(users).where(users.c.id == user_id, users.c.organization_id == organization_id)
    row = (await tx.execute(query)).one_or_none() if is_id(user_id) else None
    if row is None:
        raise UserNotFound()
    return user_of(row)


async def list_users(tx: Transaction, organization_id: str, *, limit: int) -> list[User]:
    query = select(users).where(users.c.organization_id == organization_id).order_by(users.c.email).limit(limit)
    return [user_of(row) for row in await tx.execute(query)]


async def change_role(tx: Transaction, user: User, role: Role, *, actor: Actor, now: datetime) -> None:
    await feed.advance(tx)  # one at a time, so that two admins cannot make each other viewers
    if role is not Role.ADMIN:
        await _must_not_be_last_admin(tx, user)
    await tx.execute(update(users).where(users.c.id == user.id).values(role=role))
    await note(tx, actor, "user.role-changed", subject=user.id, now=now, email=user.email, role=role)


async def change_password(tx: Transaction, user: User, password_hash: str, *, actor: Actor, now: datetime) -> None:
    await tx.execute(update(users).where(users.c.id == user.id).values(password_hash=password_hash))
    await note(tx, actor, "user.password-changed", subject=user.id, now=now, email=user.email)


async def change_theme(tx: Transaction, user: User, theme: Theme) -> None:
    await tx.execute(update(users).where(users.c.id == user.id).values(theme=theme))


async def remove_user(tx: Transaction, user: User, *, actor: Actor, now: datetime) -> None:
    """Sessions must have been ended before."""
    await feed.advance(tx)
    await _must_not_be_last_admin(tx, user)
    await tx.execute(delete(users).where(users.c.id == user.id))
    await note(tx, actor, "user.removed", subject=user.id, now=now, email=user.email)


async def _must_not_be_last_admin(tx: Transaction, user: User) -> None:
    admins = select(func.count()).where(
        users.c.organization_id == user.organization_id, users.c.role == Role.ADMIN, users.c.id != user.id
    )
    if not (await tx.execute(admins)).scalar_one():
        raise UserConflict("this is the last admin of the organization; make somebody else an admin first")


def user_of(row: Row[tuple[object, ...]]) -> User:
    return User(row.id, row.organization_id, row.email, Role(row.role), row.created_at, Theme(row.theme))
