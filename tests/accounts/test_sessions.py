"""Sessions: a token that only the browser has, ended by sign-out, by others, and by idling."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from billhook.accounts import sessions
from billhook.accounts.sessions import IDLE, MOST_SESSIONS
from billhook.accounts.users import User
from billhook.storage.database import Database
from tests.accounts.people import NOW, person


async def begin(db: Database, user: User, *, agent: str = "Firefox", at: timedelta = timedelta()) -> str:
    async with db.transaction() as tx:
        return await sessions.begin(tx, user, address="192.0.2.1", agent=agent, now=NOW + at)


async def owner(db: Database, token: str, *, at: timedelta = timedelta()) -> str | None:
    async with db.reading() as tx:
        found = await sessions.find(tx, token, now=NOW + at)
    return found and found[1].email


async def test_a_token_names_its_user(db: Database) -> None:
    token = await begin(db, await person(db, "ada@example.com"))
    assert await owner(db, token) == "ada@example.com"
    assert await owner(db, token + "x") is None
    assert await owner(db, "") is None


async def test_the_token_itself_is_not_stored(db: Database) -> None:
    token = await begin(db, await person(db, "ada@example.com"))
    async with db.reading() as tx:
        row = (await tx.execute(select(sessions.sessions))).one()
    assert token not in str(row)


async def test_a_session_ends_after_twelve_hours_without_a_visit(db: Database) -> None:
    token = await begin(db, await person(db, "ada@example.com"))
    assert await owner(db, token, at=IDLE - timedelta(seconds=1)) == "ada@example.com"
    assert await owner(db, token, at=IDLE) is None


async def test_a_visit_prolongs_it(db: Database) -> None:
    token = await begin(db, await person(db, "ada@example.com"))
    later = NOW + IDLE / 2
    async with db.transaction() as tx:
        found = await sessions.find(tx, token, now=later)
        assert found
        await sessions.mark_seen(tx, found[0], address="192.0.2.9", now=later)
        (listed,) = await sessions.list_sessions(tx, found[1].id, now=later)
    assert (listed.seen_at, listed.address) == (later, "192.0.2.9")
    assert await owner(db, token, at=IDLE) == "ada@example.com"


async def test_sessions_are_ended_one_by_one_or_all_but_one(db: Database) -> None:
    ada = await person(db, "ada@example.com")
    tokens = [await begin(db, ada, at=timedelta(minutes=n)) for n in range(3)]
    async with db.transaction() as tx:
        listed = await sessions.list_sessions(tx, ada.id, now=NOW)
        await sessions.end(tx, ada.id, listed[0].id)
    assert [await owner(db, token) is not None for token in tokens] == [True, True, False]
    async with db.transaction() as tx:
        await sessions.end_all(tx, ada.id, but=listed[1].id)
    assert [await owner(db, token) is not None for token in tokens] == [False, True, False]


async def test_nobody_ends_the_session_of_another(db: Database) -> None:
    ada, eve = await person(db, "ada@example.com"), await person(db, "eve@example.com")
    token = await begin(db, ada)
    async with db.transaction() as tx:
        (listed,) = await sessions.list_sessions(tx, ada.id, now=NOW)
        await sessions.end(tx, eve.id, listed.id)
        await sessions.end(tx, eve.id, "no id at all")
        await sessions.end_all(tx, eve.id)
    assert await owner(db, token) == "ada@example.com"


async def test_a_user_has_at_most_fifty(db: Database) -> None:
    ada = await person(db, "ada@example.com")
    tokens = [await begin(db, ada, at=timedelta(seconds=n)) for n in range(MOST_SESSIONS + 2)]
    alive = [await owner(db, token, at=timedelta(minutes=1)) is not None for token in tokens]
    assert alive == [False, False] + [True] * MOST_SESSIONS


@pytest.mark.parametrize(("agent", "kept"), [("A\x1b[31mB\0", "A[31mB"), ("x" * 5000, "x" * 200), ("", "")])
async def test_what_a_browser_says_of_itself_is_kept_readable_and_short(db: Database, agent: str, kept: str) -> None:
    ada = await person(db, "ada@example.com")
    await begin(db, ada, agent=agent)
    async with db.reading() as tx:
        (listed,) = await sessions.list_sessions(tx, ada.id, now=NOW)
    assert listed.agent == kept


async def test_idle_ones_are_forgotten_in_bounded_steps(db: Database) -> None:
    ada = await person(db, "ada@example.com")
    for _ in range(3):
        await begin(db, ada)
    fresh = await begin(db, ada, at=IDLE)
    async with db.transaction() as tx:
        assert await sessions.purge(tx, now=NOW + IDLE, limit=2) == 2
        assert await sessions.purge(tx, now=NOW + IDLE, limit=2) == 1
    assert await owner(db, fresh, at=IDLE) == "ada@example.com"
