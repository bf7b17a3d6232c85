"""Lists for people: all that a line needs in one statement, found in an index however much there is."""

import re
from dataclasses import replace
from typing import Any

from billhook.accounts.installation import Installation
from billhook.delivery import counts, reads
from billhook.delivery.counts import HOUR_MS, Span, key_of
from billhook.delivery.reads import Filter
from billhook.delivery.store import State
from tests.delivery.support import Team, fill, make_team, plan_of, send, send_one, set_deliveries, statements_of


def filters_of(team: Team, **more: Any) -> list[Filter]:
    everything = Filter(team.group.organization_id, limit=51, **more)
    return [
        everything,
        replace(everything, state=State.FAILED),
        replace(everything, group_id=team.group.id),
        replace(everything, provider_id=team.providers[-1].id),
        replace(everything, provider_id=team.providers[-1].id, state=State.DELIVERED),
        replace(everything, since_ms=1, until_ms=2),
    ]


async def test_a_long_history_is_not_read_through(installation: Installation) -> None:
    team = await make_team(installation, 20)
    await fill(team)
    for wanted in filters_of(team):
        async with statements_of(installation.db) as statements, installation.db.transaction() as tx:
            await reads.list_with_names(tx, wanted)
        ((statement, values),) = [each for each in statements if "deliveries" in each[0]]
        lines = await plan_of(installation.db, statement, values)
        assert not [line for line in lines if re.search("SCAN deliveries|Seq Scan on deliveries", line)], lines


async def test_both_lists_have_the_same_deliveries_in_the_same_order(installation: Installation) -> None:
    team = await make_team(installation, 3)
    sent = [each.id for accepted in await send(team, 4) for each in accepted.deliveries]
    await set_deliveries(installation.db, *sent[::2], state="failed")
    for wanted in filters_of(team, after=max(sent)):
        async with installation.db.reading() as tx:
            plain, named = await reads.list_deliveries(tx, wanted), await reads.list_with_names(tx, wanted)
        assert [row.id for row in plain] == [row.id for row in named]
        assert [row.id for row in plain] == sorted((row.id for row in plain), reverse=True)


async def test_a_line_has_the_names_that_people_know(installation: Installation) -> None:
    team = await make_team(installation, name="Costs")
    sent = await send_one(team)
    async with installation.db.reading() as tx:
        (row,) = await reads.list_with_names(tx, Filter(team.group.organization_id))
    assert (row.id, row.title, row.provider_name, row.group_name) == (sent, "Title 0", "Pager", "Costs")
    assert row.provider_deleted_at is None


async def test_a_lease_that_is_renewed_changes_no_line(installation: Installation) -> None:
    team = await make_team(installation)
    sent = await send_one(team)
    lines = []
    for lease_until_ms in (1, 2):
        await set_deliveries(installation.db, sent, lease="x", lease_until_ms=lease_until_ms)
        async with installation.db.reading() as tx:
            lines.append([tuple(row) for row in await reads.list_with_names(tx, Filter(None))])
    assert lines[0] == lines[1]


async def test_hours_are_added_up_for_many_providers_at_once(installation: Installation) -> None:
    tried = [(0, True, 7), (0, True, 900), (0, False, 7), (2, False, 7), (3, True, 7)]
    keys = [key_of("prv_a", at_ms=hour * HOUR_MS, is_ok=ok, milliseconds=took) for hour, ok, took in tried]
    async with installation.db.transaction() as tx:
        await counts.add(tx, [*keys, key_of("prv_other", at_ms=HOUR_MS, is_ok=True, milliseconds=1)])
        found = await reads.list_hours(tx, ["prv_a", "prv_b"], since_ms=0)
        later = await reads.list_hours(tx, ["prv_a"], since_ms=2 * HOUR_MS)
    assert found == {"prv_a": [Span(0, 2, 1), Span(2 * HOUR_MS, 0, 1), Span(3 * HOUR_MS, 1, 0)], "prv_b": []}
    assert later == {"prv_a": found["prv_a"][1:]}
