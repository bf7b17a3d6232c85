"""Users: people who sign in to the console."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Column, ForeignKey, Table, Text, insert
from sqlalchemy.exc import IntegrityError

from billhook.accounts.audit import Actor, note
from billhook.accounts.passwords import hash_password
from billhook.errors import InvalidParameters, UserConflict
from billhook.storage.database import Transaction
from billhook.storage.ids import new_id
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
)


class Role(StrEnum):
    ADMIN = "admin"  # may change everything of the organization
    VIEWER = "viewer"  # may look


@dataclass(frozen=True)
class User:
    id: str
    organization_id: str
    email: str
    role: Role
    created_at: datetime


async def create_user(
    tx: Transaction, organization_id: str, *, email: str, password: str, role: Role, actor: Actor, now: datetime
) -> User:
    user = User(new_id("usr"), organization_id, normal_email(email), role, now)
    row = {"id": user.id, "organization_id": organization_id, "email": user.email, "role": role, "created_at": now}
    try:
        await tx.execute(insert(users).values(**row, password_hash=hash_password(password)))
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
