"""Failures that all processes count together."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from billhook.storage.database import Database, open_database
from billhook.web.failures import KEYS_A_WORD, Failures
from billhook.web.throttle import MOST_UNTOLD, key_of
from tests.support import on_postgres, on_sqlite, until

LIMIT = 10


def counting(*keys: str) -> Failures:
    failures = Failures()
    failures.window("doors", LIMIT).untold.extend(keys)
    return failures


@pytest.fixture
async def elsewhere(location: str) -> AsyncIterator[Database]:
    """The database as another process has it."""
    opened = open_database(location)
    yield opened
    await opened.close()


@on_postgres
async def test_what_one_process_counted_counts_in_the_others_and_not_twice_in_its_own(
    db: Database, elsewhere: Database
) -> None:
    keys = [key_of(str(number)) for number in range(MOST_UNTOLD)]
    here, there = counting(), counting(*keys, keys[0])
    listening = [asyncio.create_task(here.listen(db)), asyncio.create_task(there.listen(elsewhere))]

    async def is_heard() -> bool:
        await there.tell(elsewhere)
        there.windows["doors"].untold.append("again")  # listening may not have begun yet
        return "again" in here.windows["doors"].moments

    try:
        await until(is_heard)
        there.windows["doors"].untold.extend(keys)
        await there.tell(elsewhere)

        async def all_are_heard() -> bool:
            return keys[-1] in here.windows["doors"].moments

        await until(all_are_heard)
    finally:
        for task in listening:
            task.cancel()
        await asyncio.wait(listening)
    assert set(keys) <= here.windows["doors"].moments.keys()
    assert not there.windows["doors"].moments
    assert not here.windows["doors"].untold


def test_a_word_is_never_longer_than_the_database_takes() -> None:
    failures = counting(*(key_of(str(number)) for number in range(3 * MOST_UNTOLD)))
    words = list(failures._words())
    assert len(words) == MOST_UNTOLD / KEYS_A_WORD
    assert max(map(len, words)) < 7900
    assert not list(failures._words()), "each is told once"


@pytest.mark.parametrize("word", ["", "windows of a newer version", "doors"])
def test_a_word_that_says_nothing_to_us_changes_nothing(word: str) -> None:
    failures = counting()
    failures.hear(word)
    assert not failures.windows["doors"].moments


@on_sqlite
async def test_on_sqlite_there_is_nobody_to_tell(db: Database) -> None:
    failures = counting("key")
    await failures.tell(db)
    await failures.listen(db)
    assert not failures.windows["doors"].untold
