"""The audit trail: who created, changed, rotated or revoked what, and when. Written together with the change."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ForeignKey, Index, Table, Text, insert, select

from billhook.storage.database import Transaction
from billhook.storage.ids import new_id
from billhook.storage.types import Moment, metadata

audit = Table(
    "audit",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("organization_id", Text, ForeignKey("organizations.id")),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_audit_organization_id_id", "organization_id", "id"),
    Index("ix_audit_subject_id", "subject", "id"),
)


@dataclass(frozen=True)
class Actor:
    """Who does it (`cli:root`, `client:cli_…`, `user:usr_…`, `system`) and for which organization, if for one."""

    name: str
    organization_id: str | None = None


@dataclass(frozen=True)
class Entry:
    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]


async def note(tx: Transaction, actor: Actor, action: str, *, subject: str, now: datetime, **detail: Any) -> None:
    values = {"id": new_id("aud"), "at": now, "organization_id": actor.organization_id, "actor": actor.name}
    await tx.execute(insert(audit).values(**values, action=action, subject=subject, detail=json.dumps(detail)))


async def read_trail(tx: Transaction, *, subject: str | None = None, limit: int = 100) -> list[Entry]:
    """The newest entries first."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if subject is not None:
        if not subject.isascii() or not subject.isprintable():
            return []
        query = query.where(audit.c.subject == subject)
    rows = await tx.execute(query)
    return [Entry(row.at, row.actor, row.action, row.subject, json.loads(row.detail)) for row in rows]
