"""Organizations: the customers. Everything else belongs to exactly one."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, Row, Table, Text, insert, select

from billhook.errors import Refusal
from billhook.storage.database import Transaction
from billhook.storage.ids import is_id, new_id
from billhook.storage.text import plain_text
from billhook.storage.types import Moment, metadata

LONGEST_NAME = 100

organizations = Table(
    "organizations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)


@dataclass(frozen=True)
class Organization:
    id: str
    name: str
    created_at: datetime


async def create_organization(tx: Transaction, name: str, *, now: datetime) -> Organization:
    created = Organization(new_id("org"), plain_text("name", name, shortest=1, longest=LONGEST_NAME), now)
    await tx.execute(insert(organizations).values(id=created.id, name=created.name, created_at=now))
    return created


async def list_organizations(tx: Transaction) -> list[Organization]:
    rows = await tx.execute(select(organizations).order_by(organizations.c.id))
    return [_organization(row) for row in rows]


async def find_organization(tx: Transaction, organization_id: str | None) -> Organization:
    """The one named, or the first one when none is named."""
    query = select(organizations).order_by(organizations.c.id).limit(1)
    if organization_id is not None:
        query = query.where(organizations.c.id == organization_id)
    can_be = organization_id is None or is_id(organization_id)
    row = (await tx.execute(query)).one_or_none() if can_be else None
    if row is None:
        raise Refusal(f"there is no organization {organization_id}")
    return _organization(row)


def _organization(row: Row[tuple[object, ...]]) -> Organization:
    return Organization(row.id, row.name, row.created_at)
