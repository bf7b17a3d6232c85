"""A process notices that the schema has outgrown it, and only that."""

import asyncio

import pytest
from sqlalchemy import text, update
from structlog.testing import capture_logs

from billhook.errors import Refusal
from billhook.storage.database import Database, open_database
from billhook.storage.migrate import floor, head_revision, schema_floor
from billhook.storage.watch import Watch, watching

OFTEN = 0.01  # seconds


async def set_floor(db: Database, revision: str) -> None:
    async with db.transaction() as tx:
        await tx.execute(update(schema_floor).values(oldest_code=revision))


async def looks(watch: Watch, *, times: int) -> None:
    for _ in range(times):
        await watch._look()


async def test_a_schema_that_outgrows_the_code_stops_it_and_says_why(db: Database) -> None:
    stopped = asyncio.Event()
    with capture_logs() as lines:
        async with watching(db, stopped.set, every_seconds=OFTEN) as watch:
            watch.refuse_if_outgrown()
            assert not stopped.is_set()
            await set_floor(db, "9999")
            await stopped.wait()
    sentence = f"migrated and needs 9999 or later, this program is {head_revision()}: install the newer Billhook"
    with pytest.raises(Refusal, match=sentence):
        watch.refuse_if_outgrown()
    ((said, reason),) = [(line["log_level"], line["reason"]) for line in lines]
    assert said == "error"
    assert sentence in reason


async def test_a_schema_that_this_code_can_live_with_does_not_stop_it(db: Database) -> None:
    watch = Watch(db)
    for revision in (floor(), head_revision()):
        await set_floor(db, revision)
        await looks(watch, times=1)
    watch.refuse_if_outgrown()


async def test_what_the_code_knew_when_it_started_counts_and_not_what_is_installed_later(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(db)
    monkeypatch.setattr("billhook.storage.watch.known_revisions", lambda: {"9999"})
    await set_floor(db, "9999")
    await looks(watch, times=1)
    with pytest.raises(Refusal):
        watch.refuse_if_outgrown()


async def test_a_database_that_is_away_or_in_disorder_stops_nobody(db: Database) -> None:
    watch = Watch(db)
    async with db.transaction() as tx:
        await tx.execute(text("ALTER TABLE schema_floor RENAME TO mislaid"))
    with capture_logs() as lines:
        await looks(watch, times=2)
    assert [line["log_level"] for line in lines] == ["error", "error"]
    nowhere = open_database("postgresql://127.0.0.1:9/nowhere")
    with capture_logs() as lines:
        await looks(Watch(nowhere), times=1)
    await nowhere.close()
    assert lines == []
    watch.refuse_if_outgrown()
