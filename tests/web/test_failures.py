"""Failures that all processes count together."""

import asyncio
from collections.abc import Iterator

import pytest

from billhook.errors import Unavailable
from billhook.storage.database import Database, open_database
from billhook.storage.vault import Vault
from billhook.web.failures import KEYS_A_WORD, Failures
from billhook.web.throttle import MOST_UNTOLD, FailureWindow
from tests.support import on_postgres, on_sqlite, until

VAULT = Vault("a master key of at least 32 characters")
LIMIT = 10


class Process:
    """What one of several processes counts."""

    def __init__(self, *untold: str) -> None:
        self.failures = Failures(VAULT)
        self.doors = self.failures.window("doors", LIMIT)
        self.doors.untold.extend(untold)

    def has_heard(self, key: str) -> bool:
        return key in self.doors.moments

    async def says(self, db: Database, *keys: str) -> None:
        self.doors.untold.extend(keys)
        await self.failures.tell(db)


def keys(count: int) -> Iterator[str]:
    return (FailureWindow(LIMIT).key_of(str(number)) for number in range(count))


@on_postgres
async def test_what_one_process_counted_counts_in_the_others_and_not_twice_in_its_own(
    db: Database, elsewhere: Database
) -> None:
    here, there, many = Process(), Process(), list(keys(MOST_UNTOLD))
    listening = [asyncio.create_task(here.failures.listen(db)), asyncio.create_task(there.failures.listen(elsewhere))]

    async def both_listen() -> bool:
        await here.says(db, "hello there")
        await there.says(elsewhere, "hello here")
        return here.has_heard("here") and there.has_heard("there")

    async def all_are_heard() -> bool:
        return all(map(here.has_heard, many))

    try:
        await until(both_listen)
        await there.says(elsewhere, *many)
        await until(all_are_heard)
        await here.says(db, "the end")

        async def is_over() -> bool:
            return there.has_heard("end")

        await until(is_over)
    finally:
        for task in listening:
            task.cancel()
        await asyncio.wait(listening)
    assert not any(map(there.has_heard, many)), "they were its own"
    assert not here.doors.untold, "what was heard is not told again"


def test_a_word_is_never_longer_than_the_database_takes() -> None:
    process = Process(*keys(3 * MOST_UNTOLD))
    words = list(process.failures._words())
    assert len(words) == MOST_UNTOLD / KEYS_A_WORD
    assert max(map(len, words)) < 7900
    assert not list(process.failures._words()), "each is told once"


@on_postgres
async def test_what_could_not_be_told_is_told_later(db: Database) -> None:
    process, some = Process(*keys(KEYS_A_WORD + 1)), list(keys(KEYS_A_WORD + 1))
    nowhere = open_database("postgresql://postgres@/nobody?host=/tmp/billhook-nowhere")
    try:
        with pytest.raises(Unavailable):
            await process.failures.tell(nowhere)
    finally:
        await nowhere.close()
    assert sorted(process.doors.untold) == sorted(some)
    await process.failures.tell(db)
    assert not process.doors.untold


@pytest.mark.parametrize("word", ["", "windows of a newer version", "doors"])
def test_a_word_that_says_nothing_to_us_changes_nothing(word: str) -> None:
    process = Process()
    process.failures.hear(word)
    assert not process.doors.moments


@on_sqlite
async def test_on_sqlite_there_is_nobody_to_tell(db: Database) -> None:
    process = Process("key")
    await process.failures.tell(db)
    await process.failures.listen(db)
    assert not process.doors.untold
