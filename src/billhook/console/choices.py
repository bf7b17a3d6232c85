"""The groups and providers of an organization, to choose from."""

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from billhook.delivery import reads
from billhook.storage.database import Transaction

MOST = 2000  # providers: a full organization after the default limits


@dataclass(frozen=True)
class Choice:
    id: str
    name: str


@dataclass(frozen=True)
class GroupChoice(Choice):
    providers: tuple[Choice, ...]


async def list_choices(tx: Transaction, organization_id: str) -> list[GroupChoice]:
    """By name."""
    rows = await reads.list_destinations(tx, organization_id, limit=MOST)
    return [
        GroupChoice(id, name, tuple(Choice(row.provider_id, row.provider_name) for row in its if row.provider_id))
        for (id, name), its in groupby(rows, attrgetter("group_id", "group_name"))
    ]
