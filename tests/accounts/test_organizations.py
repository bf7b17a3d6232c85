"""Organizations: made with a name, listed oldest first, found by id."""

import time
from datetime import UTC, datetime

import pytest

from billhook.accounts.organizations import (
    LONGEST_NAME,
    Organization,
    create_organization,
    find_organization,
    list_organizations,
)
from billhook.errors import InvalidParameters, Refusal
from billhook.storage.database import Database

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


async def create(db: Database, name: str) -> Organization:
    async with db.transaction() as tx:
        return await create_organization(tx, name, now=NOW)


async def create_in_order(db: Database, *names: str) -> list[Organization]:
    """Each in a later millisecond than the one before."""
    with pytest.MonkeyPatch.context() as patch:
        made = []
        for turn, name in enumerate(names, 1):
            patch.setattr(time, "time_ns", lambda turn=turn: turn * 1_000_000)
            made.append(await create(db, name))
        return made


async def test_an_organization_is_kept_as_it_was_made(db: Database) -> None:
    made = await create(db, "  Acme  ")
    assert (made.name, made.created_at) == ("Acme", NOW)
    async with db.reading() as tx:
        assert await list_organizations(tx) == [made]


async def test_the_oldest_is_listed_first(db: Database) -> None:
    made = await create_in_order(db, "B", "A", "C")
    async with db.reading() as tx:
        assert await list_organizations(tx) == made


async def test_without_a_name_the_first_one_is_meant(db: Database) -> None:
    first, second = await create_in_order(db, "First", "Second")
    async with db.reading() as tx:
        assert await find_organization(tx, None) == first
        assert await find_organization(tx, second.id) == second


async def test_one_that_is_not_there_is_refused_by_its_id(db: Database) -> None:
    async with db.reading() as tx:
        with pytest.raises(Refusal, match="there is no organization org_none"):
            await find_organization(tx, "org_none")


@pytest.mark.parametrize("name", ["", "   ", "x" * (LONGEST_NAME + 1)])
async def test_a_name_beyond_the_limits_is_refused(db: Database, name: str) -> None:
    with pytest.raises(InvalidParameters, match="name: must have 1 to 100 characters"):
        await create(db, name)


@pytest.mark.parametrize("name", ["nul\0", "line\nbreak", "escape\x1b[2J", "not text \udcff"])
async def test_a_name_that_is_not_plain_text_is_refused(db: Database, name: str) -> None:
    with pytest.raises(InvalidParameters, match="name"):
        await create(db, name)
