"""The list of deliveries: what is in it, what it is narrowed down to, and how it stays up to date."""

import re
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from billhook.accounts.installation import Installation
from billhook.delivery import control
from billhook.storage.database import Database
from tests.console.delivery_pages import (
    HOSTILE,
    LIST,
    delivery_to,
    etag_of,
    lines_of,
    notify,
    page,
    part,
    text_of,
)
from tests.delivery.support import make_team, send, set_deliveries, set_provider
from tests.support import OPERATOR, another_organization

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


async def test_the_list_says_what_went_where(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation, name="Costs")
    first, second = await delivery_to(team, "First"), await delivery_to(team, "Second")
    await set_deliveries(installation.db, first, state="failed", attempts=4, status=500, finished_ms=NOW_MS)
    shown = await page(browser, LIST)
    assert lines_of(shown) == [second, first]
    assert "Second Pager Costs pending" in text_of(shown)
    assert "First Pager Costs failed" in text_of(shown)
    assert "500 Internal Server Error 4 attempts" in text_of(shown)


async def test_a_viewer_may_look(viewer: httpx.AsyncClient, installation: Installation) -> None:
    sent = await delivery_to(await make_team(installation))
    shown = await page(viewer, LIST)
    assert lines_of(shown) == [sent]
    assert "Recover" not in text_of(shown)


async def test_hostile_names_are_shown_as_text(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation, name=HOSTILE[:90])
    await set_provider(team, team.provider, name=HOSTILE)
    await delivery_to(team, HOSTILE)
    shown = await page(browser, LIST)
    assert "alert('1')" in text_of(shown)
    assert "<script>alert" not in shown
    assert "<img src=x" not in shown


async def test_nothing_sent_says_what_to_do(browser: httpx.AsyncClient) -> None:
    shown = await page(browser, LIST)
    assert "Nothing was sent yet" in shown
    assert 'href="/console/settings/notifications"' in shown


async def test_nothing_found_leads_back(browser: httpx.AsyncClient, installation: Installation) -> None:
    await delivery_to(await make_team(installation))
    shown = await page(browser, f"{LIST}?state=cancelled")
    assert "Nothing matches these filters" in shown


async def test_the_list_is_of_one_organization(browser: httpx.AsyncClient, installation: Installation) -> None:
    theirs = await make_team(installation, organization_id=await another_organization(installation))
    accepted = await notify(theirs)
    assert lines_of(await page(browser, LIST)) == []
    for wanted in (
        f"provider_id={theirs.provider.id}",
        f"group_id={theirs.group.id}",
        f"notification_id={accepted.id}",
    ):
        shown = await page(browser, f"{LIST}?{wanted}", status=400)
        assert "there is no such" in text_of(shown)


async def test_every_filter_narrows_the_list(browser: httpx.AsyncClient, installation: Installation) -> None:
    costs, pets = await make_team(installation, 2, "Costs"), await make_team(installation, name="Pets")
    accepted, other = await notify(costs), await delivery_to(pets)
    to_first, to_second = sorted(each.id for each in accepted.deliveries)
    await set_deliveries(installation.db, to_first, state="delivered", status=200, attempts=1)
    by_id = {each.id: each.provider_id for each in accepted.deliveries}
    for wanted, found in {
        "state=delivered": [to_first],
        f"group_id={costs.group.id}": [to_second, to_first],
        f"group_id={pets.group.id}": [other],
        f"provider_id={by_id[to_second]}": [to_second],
        f"provider_id={by_id[to_first]}&group_id={costs.group.id}&state=pending": [],
        f"notification_id={accepted.id}": [to_second, to_first],
        "since=2100-01-01T00:00": [],
        "until=2100-01-01T00:00": [other, to_second, to_first],
        "until=2020-01-01T00:00": [],
    }.items():
        assert lines_of(await page(browser, f"{LIST}?{wanted}")) == found, wanted


async def test_the_form_shows_what_is_asked_for(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation, name="Costs")
    accepted = await notify(team, "Of this one")
    wanted = f"state=pending&group_id={team.group.id}&provider_id={team.provider.id}&since=2026-01-01T00:00"
    shown = await page(browser, f"{LIST}?{wanted}&notification_id={accepted.id}")
    for value in ("pending", team.group.id, team.provider.id):
        assert f'<option value="{value}" selected>' in shown
    assert 'value="2026-01-01T00:00"' in shown
    assert "Only of the notification Of this one" in text_of(shown)


async def test_bad_filters_are_told(browser: httpx.AsyncClient) -> None:
    shown = text_of(await page(browser, f"{LIST}?state=lost&since=yesterday&provider_id=%27&cursor=x%00", status=400))
    assert "There is no list for these filters" in shown
    assert "must be one of pending, delivered" in shown
    assert "must be a moment, such as" in shown
    assert "is no place in this list" in shown


async def test_a_provider_of_another_group_is_told(browser: httpx.AsyncClient, installation: Installation) -> None:
    costs, pets = await make_team(installation, name="Costs"), await make_team(installation, name="Pets")
    wanted = f"group_id={costs.group.id}&provider_id={pets.provider.id}"
    assert "is not in the group that is chosen" in await page(browser, f"{LIST}?{wanted}", status=400)


async def test_what_is_deleted_can_still_be_looked_at(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation, name="Costs")
    sent = await delivery_to(team)
    async with installation.db.transaction() as tx:
        await control.delete_group(tx, team.group.id, author=OPERATOR, now=NOW)
    shown = await page(browser, f"{LIST}?provider_id={team.provider.id}&group_id={team.group.id}")
    assert lines_of(shown) == [sent]
    assert "Pager (deleted)" in text_of(shown)
    assert "Costs (deleted)" in text_of(shown)
    assert "cancelled" in text_of(shown)


async def test_older_ones_are_on_further_pages(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    sent = sorted((each.deliveries[0].id for each in await send(team, 120)), reverse=True)
    seen, path = [], f"{LIST}?state=pending"
    while path:
        shown = await page(browser, path)
        seen.append(lines_of(shown))
        older = re.search(r'href="([^"]+)">Older<', shown)
        path = older[1].replace("&amp;", "&") if older else ""
    assert [len(each) for each in seen] == [50, 50, 20]
    assert sum(seen, []) == sent
    assert "data-live=" not in shown
    assert f'href="{LIST}?state=pending">Newest<' in shown


async def test_a_page_behind_the_last_leads_to_the_newest(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    sent = await delivery_to(await make_team(installation))
    assert "There are no older ones" in await page(browser, f"{LIST}?cursor={sent}")


async def test_the_live_part_is_sent_only_when_it_has_changed(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    sent = await delivery_to(await make_team(installation))
    seen = etag_of(await page(browser, LIST))
    same = await part(browser, LIST, "deliveries", seen)
    assert (same.status_code, same.content) == (304, b"")
    await set_deliveries(installation.db, sent, state="delivered", status=200, attempts=1)
    fresh = await part(browser, LIST, "deliveries", seen)
    assert fresh.status_code == 200
    assert "<html" not in fresh.text
    assert fresh.text.lstrip().startswith('<section class="card" id="deliveries"')
    assert "delivered" in text_of(fresh.text)
    assert fresh.headers["etag"] == f'"{etag_of(fresh.text)}"'
    assert (await part(browser, LIST, "deliveries", etag_of(fresh.text))).status_code == 304


async def test_new_ones_and_renamed_ones_are_changes(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    await delivery_to(team)
    seen = etag_of(await page(browser, LIST))
    later = await delivery_to(team)
    fresh = await part(browser, LIST, "deliveries", seen)
    assert later in lines_of(fresh.text)
    await set_provider(team, team.provider, name="Another name")
    assert "Another name" in (await part(browser, LIST, "deliveries", etag_of(fresh.text))).text


async def test_lines_say_what_happens_next(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation, 2)
    waiting, held = (await notify(team)).deliveries
    await set_deliveries(installation.db, waiting.id, due_ms=1_780_315_200_000)
    await set_provider(team, team.providers[0], open_until_ms=1_780_315_260_000)
    await set_deliveries(installation.db, held.id, state="held")
    await set_provider(team, team.providers[1], state="paused")
    shown = await page(browser, LIST)
    assert 'data-countdown="2026-06-01T12:01:00.000Z"' in shown
    assert "provider paused" in text_of(shown)


async def test_the_chart_of_a_provider_stands_above_its_deliveries(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    assert "<svg" not in await page(browser, LIST)
    day = await page(browser, f"{LIST}?provider_id={team.provider.id}")
    assert "Attempts in the last 24 hours" in day
    week = re.search(r'href="([^"]+span=7d)"', day)
    assert week is not None
    assert "Attempts in the last 7 days" in await page(browser, week[1].replace("&amp;", "&"))


async def test_a_longer_list_takes_no_more_statements(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    counted = []
    for many in (1, 40):
        await send(team, many)
        counted.append(await _statements(installation.db, browser, LIST))
    assert counted == [4, 4]  # two for the session, the list, and what can be chosen


async def _statements(db: Database, browser: httpx.AsyncClient, path: str) -> int:
    """The fewest of some visits: now and then the process also looks for changes of others, beside them."""
    return min([await _statements_once(db, browser, path) for _ in range(4)])


async def _statements_once(db: Database, browser: httpx.AsyncClient, path: str) -> int:
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    await page(browser, path)
    event.listen(db.reader.sync_engine, "before_cursor_execute", note)
    await page(browser, path)
    event.remove(db.reader.sync_engine, "before_cursor_execute", note)
    return len([each for each in seen if each.startswith("SELECT")])


@pytest.mark.parametrize("query", ["", "?state=failed"])
async def test_who_is_not_signed_in_is_asked_to(http: httpx.AsyncClient, query: str) -> None:
    answer = await http.get(f"{LIST}{query}")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/console/sign-in?next=%2Fdeliveries")
