"""Tallies of token requests: bounded, written in batches, and not lost in bad weather."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from billhook.accounts.installation import Installation
from billhook.auth import activity, manage
from billhook.auth.activity import ELSEWHERE, Activity, purge_token_requests, recent_requests, token_requests
from billhook.errors import Unavailable
from billhook.storage.database import open_database
from tests.support import OPERATOR, register

NOW = datetime(2026, 6, 1, 12, 30, 15, tzinfo=UTC)


async def rows(installation: Installation) -> list[Any]:
    async with installation.db.reading() as tx:
        return list(await tx.execute(select(token_requests).order_by(token_requests.c.outcome)))


async def test_requests_of_a_minute_become_one_row(installation: Installation) -> None:
    made, tallies = await register(installation), Activity()
    for second in range(5):
        tallies.issued(made.client.id, made.secret.id, address="192.0.2.1", now=NOW.timestamp() + second)
    tallies.refused(made.client.id, "wrong-secret", address="192.0.2.9", now=NOW.timestamp())
    await tallies.flush(installation.db)
    issued, refused = await rows(installation)
    assert (issued.outcome, issued.count, issued.address) == ("issued", 5, "192.0.2.1")
    assert (issued.minute, issued.last_at) == (NOW.replace(second=0), NOW + timedelta(seconds=4))
    assert (refused.outcome, refused.count, refused.address) == ("wrong-secret", 1, "192.0.2.9")
    assert tallies.pending == 0


async def test_a_second_batch_adds_to_the_first(installation: Installation) -> None:
    made, tallies = await register(installation), Activity()
    for _ in range(2):
        tallies.issued(made.client.id, made.secret.id, address="192.0.2.1", now=NOW.timestamp())
        await tallies.flush(installation.db)
    assert [row.count for row in await rows(installation)] == [2]


async def test_two_processes_write_the_same_rows_at_once(installation: Installation, location: str) -> None:
    made = await register(installation)
    both = [Activity(), Activity()]
    for tallies in both:
        for number in range(50):
            address = f"192.0.2.{number}"
            tallies.issued(made.client.id, made.secret.id, address=address, now=NOW.timestamp())
    another = open_database(location)
    await asyncio.gather(both[0].flush(installation.db), both[1].flush(another))
    await another.close()
    assert [row.count for row in await rows(installation)] == [2] * 50


async def test_the_last_use_is_noted_on_the_secret_and_on_its_client(installation: Installation) -> None:
    made, tallies = await register(installation), Activity()
    tallies.issued(made.client.id, made.secret.id, address="192.0.2.1", now=NOW.timestamp())
    tallies.issued(made.client.id, made.secret.id, address="192.0.2.2", now=NOW.timestamp() + 1)
    await tallies.flush(installation.db)
    late = Activity()
    late.issued(made.client.id, made.secret.id, address="192.0.2.3", now=NOW.timestamp() - 60)
    await late.flush(installation.db)
    async with installation.db.reading() as tx:
        client = await manage.get(tx, made.client.id, author=OPERATOR)
    used = (NOW + timedelta(seconds=1), "192.0.2.2")
    assert (client.last_used_at, client.last_used_address) == used
    assert (client.secrets[0].last_used_at, client.secrets[0].last_used_address) == used


async def test_tallies_survive_a_database_that_is_away(installation: Installation) -> None:
    made, tallies = await register(installation), Activity()
    away = open_database("postgresql://nobody@127.0.0.1:1/nowhere")
    tallies.issued(made.client.id, made.secret.id, address="192.0.2.1", now=NOW.timestamp())
    with pytest.raises(Unavailable):
        await tallies.flush(away)
    await away.close()
    tallies.issued(made.client.id, made.secret.id, address="192.0.2.1", now=NOW.timestamp())
    await tallies.flush(installation.db)
    assert [row.count for row in await rows(installation)] == [2]


def test_many_addresses_are_counted_together_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST_TALLIES", 5)
    tallies = Activity()
    for number in range(100):
        tallies.refused("cli_1", "wrong-secret", address=f"192.0.2.{number}", now=NOW.timestamp())
    assert tallies.pending == 6
    assert sum(count for count, _ in tallies.counts.values()) == 100
    assert max(tallies.counts.items(), key=lambda item: item[1])[0][3] == ELSEWHERE


async def test_old_tallies_are_purged_a_bounded_number_at_a_time(installation: Installation) -> None:
    made, tallies = await register(installation), Activity()
    for day in range(40):
        tallies.issued(made.client.id, made.secret.id, address="x", now=(NOW - timedelta(days=day)).timestamp())
    await tallies.flush(installation.db)
    purged = []
    for _ in range(4):
        async with installation.db.transaction() as tx:
            purged.append(await purge_token_requests(tx, now=NOW, limit=4))
    assert purged == [4, 4, 2, 0]
    assert len(await rows(installation)) == 30


async def test_recent_requests_are_of_one_client_and_the_latest_come_first(installation: Installation) -> None:
    made, other, tallies = await register(installation), await register(installation), Activity()
    start = NOW.timestamp()
    tallies.issued(made.client.id, made.secret.id, address="192.0.2.1", now=start)
    tallies.refused(made.client.id, "wrong-secret", address="192.0.2.2", now=start + 5)
    tallies.refused(made.client.id, "wrong-secret", address="192.0.2.2", now=start + 6)
    tallies.issued(made.client.id, made.secret.id, address="192.0.2.1", now=start + 120)
    tallies.issued(other.client.id, other.secret.id, address="192.0.2.9", now=start)
    await tallies.flush(installation.db)
    async with installation.db.reading() as tx:
        found = await recent_requests(tx, made.client.id, limit=10)
        latest = await recent_requests(tx, made.client.id, limit=1)
    assert [(each.outcome, each.address, each.count) for each in found] == [
        ("issued", "192.0.2.1", 1),
        ("wrong-secret", "192.0.2.2", 2),
        ("issued", "192.0.2.1", 1),
    ]
    assert found[1].last_at == NOW + timedelta(seconds=6)
    assert latest == found[:1]
