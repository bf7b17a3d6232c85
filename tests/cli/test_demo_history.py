"""The past of the demo."""

import random
from datetime import UTC, datetime, timedelta

from billhook.accounts.installation import Installation
from billhook.cli.demo_data import GROUPS
from billhook.cli.demo_history import DAYS, Past, busyness, is_after, moments, write_past
from billhook.cli.demo_set_up import Placed, Placement, set_up
from billhook.delivery import counts, reads
from billhook.delivery.reads import Filter
from billhook.delivery.store import State
from billhook.delivery.views import attempt_view, delivery_view
from billhook.storage.ids import first_id, is_id

NOW = datetime(2026, 3, 5, 14, 30, tzinfo=UTC)  # a Thursday
NOW_MS = int(NOW.timestamp() * 1000)
WEEK_MS = DAYS * 24 * counts.HOUR_MS
SCHEDULE = tuple(timedelta(seconds=seconds) for seconds in (2, 5, 15, 45, 120))


def past(placement: Placement | None = None) -> Past:
    return Past(placement or placed(), SCHEDULE, NOW_MS).tell()


def placed() -> Placement:
    """Without a database; an id is the name of what it belongs to."""
    providers = [Placed(provider, provider.name, group.name) for group in GROUPS for provider in group.providers]
    return Placement("org", "client:cli", {group.name: group.name for group in GROUPS}, tuple(providers))


def test_it_is_the_same_past_every_time() -> None:
    first, second = past(), past()
    assert first.notifications == second.notifications
    assert first.deliveries == second.deliveries
    assert first.attempts == second.attempts
    assert list(first.counted()) == list(second.counted())


def test_it_is_modest_and_lies_within_a_week() -> None:
    told = past()
    assert 300 < len(told.notifications) < len(told.deliveries) < 3000
    for row in told.deliveries:
        assert NOW_MS - WEEK_MS <= row["created_ms"] <= row["due_ms"]
        assert row["finished_ms"] is None or row["created_ms"] < row["finished_ms"] < NOW_MS


def test_ids_are_unique_and_sort_by_their_moment() -> None:
    told = past()
    for prefix, rows in (("ntf", told.notifications), ("dlv", told.deliveries)):
        ids = [row["id"] for row in rows]
        assert len(set(ids)) == len(ids)
        assert all(is_id(id) for id in ids)
        assert all(
            first_id(prefix, row["created_ms"]) <= row["id"] < first_id(prefix, row["created_ms"] + 1) for row in rows
        )


def test_deliveries_met_every_fate() -> None:
    told = past()
    assert {row["state"] for row in told.deliveries} >= {State.DELIVERED, State.FAILED, State.HELD}
    assert {row["attempts"] for row in told.deliveries} >= {0, 1, 2, 6}
    assert {row["status"] for row in told.attempts} >= {None, 200, 404, 429, 500, 503}


def test_attempts_are_those_that_their_deliveries_speak_of() -> None:
    told = past()
    for row in told.deliveries:
        tried = [each for each in told.attempts if each["delivery_id"] == row["id"]]
        assert [each["number"] for each in tried] == list(range(1, row["attempts"] + 1))
        assert all(each["next_ms"] is not None for each in tried[:-1])
        assert row["status"] == (tried[-1]["status"] if tried else None)
        assert row["charged"] == sum(each["status"] != 429 for each in tried)


def test_a_receiver_was_well_before_it_broke_and_nothing_was_sent_while_paused() -> None:
    told, samples = past(), {each.id: each.sample for each in placed().providers}
    for row in told.deliveries:
        sample = samples[row["provider_id"]]
        if sample.broke is not None:
            is_broken = is_after(sample.broke, row["created_ms"], NOW_MS)
            assert row["state"] in ({State.FAILED, State.PENDING} if is_broken else {State.DELIVERED})
        assert (row["state"] == State.HELD) == is_after(sample.paused, row["created_ms"], NOW_MS)


def test_who_is_broken_has_been_failing_since_then() -> None:
    health = past().health
    for each in placed().providers:
        if each.sample.broke:
            since, failures = health[each.id].failing_since_ms, health[each.id].failures
            assert since is not None and is_after(each.sample.broke, since, NOW_MS) and failures > 1


def test_every_hour_of_the_week_is_counted_for_who_was_not_paused() -> None:
    told = past()
    counted = {(provider_id, hour_ms) for provider_id, hour_ms, _, _ in told.counted()}
    hours = {hour_ms for provider_id, hour_ms in counted if provider_id == "FinOps channel"}
    assert len(hours) == DAYS * 24
    assert max(hours) < NOW_MS // counts.HOUR_MS * counts.HOUR_MS  # the hour we are in is the stream's


def test_there_is_more_to_do_by_day_than_by_night_or_at_the_weekend() -> None:
    day, night = datetime(2026, 3, 5, 10, tzinfo=UTC), datetime(2026, 3, 5, 2, tzinfo=UTC)
    busy, quiet, weekend = (
        busyness(int(moment.timestamp() * 1000)) for moment in (day, night, day + timedelta(days=2))
    )
    assert busy > weekend > 0 and busy > quiet > 0
    found = list(moments(NOW_MS, random.Random(1)))
    assert found == sorted(found)


async def test_it_can_be_read_like_any_other(installation: Installation) -> None:
    placement = await set_up(installation, password="a password of the tests", receiver="http://127.0.0.1:1", now=NOW)
    told = past(placement)
    async with installation.db.transaction() as tx:
        await write_past(tx, told)
    async with installation.db.reading() as tx:
        listed = await reads.list_with_names(tx, Filter(placement.organization_id, limit=10_000))
        assert [row.id for row in listed] == sorted((row["id"] for row in told.deliveries), reverse=True)
        for row in [row for row in listed if row.attempts > 1][:20]:
            tried = await reads.list_attempts(tx, row.id)
            assert len([attempt_view(each) for each in tried]) == delivery_view(row).attempts
        ids = [each.id for each in placement.providers]
        drawn = await counts.hours(tx, ids, since_ms=NOW_MS - WEEK_MS)
    assert all(drawn.values())
