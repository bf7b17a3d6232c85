"""Recover all that failed since a moment: the form, what it refuses, and how far it has come."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from billhook.accounts.installation import Installation
from billhook.delivery import control, replay
from billhook.delivery.store import State, recoveries
from tests.console.delivery_pages import HOSTILE, LIST, etag_of, page, part, text_of
from tests.console.support import submit
from tests.delivery.support import Team, make_team, now_of, rows_of, send, set_deliveries, set_provider, states_of
from tests.groups.setting import NOW
from tests.support import OPERATOR, another_organization

RECOVER = f"{LIST}/recover"
HOUR_MS = 3_600_000


async def with_failed(team: Team, *ages_ms: int) -> list[str]:
    """Deliveries that were given up that long ago."""
    db, now = team.installation.db, await now_of(team.installation.db)
    ids = [each.deliveries[0].id for each in await send(team, len(ages_ms))]
    for id, age_ms in zip(ids, ages_ms, strict=True):
        await set_deliveries(db, id, state="failed", attempts=4, status=500, finished_ms=now - age_ms)
    return ids


async def test_everything_that_failed_lately_is_taken_up(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    await with_failed(team, 1000, 2 * HOUR_MS, 48 * HOUR_MS)
    answer = await submit(browser, RECOVER, RECOVER, provider_id=team.provider.id, period="24h")
    assert answer.status_code == 303, answer.text
    assert await states_of(installation.db) == [State.PENDING, State.PENDING, State.FAILED]
    said = text_of(await page(browser, answer.headers["location"]))
    assert "finished 2 deliveries taken up again." in said
    assert "Still waiting 2 deliveries of this provider" in said


@pytest.mark.parametrize(("period", "taken"), [("1h", 1), ("24h", 2), ("7d", 3)])
async def test_a_period_reaches_that_far_back(
    browser: httpx.AsyncClient, installation: Installation, period: str, taken: int
) -> None:
    team = await make_team(installation)
    await with_failed(team, 1000, 2 * HOUR_MS, 48 * HOUR_MS)
    await submit(browser, RECOVER, RECOVER, provider_id=team.provider.id, period=period)
    assert (await states_of(installation.db)).count(State.PENDING) == taken


async def test_a_moment_is_taken_in_utc(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    await with_failed(team, 1000, 2 * HOUR_MS)
    since = f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M}"
    await submit(browser, RECOVER, RECOVER, provider_id=team.provider.id, period="moment", since=since)
    assert (await states_of(installation.db)).count(State.PENDING) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"period": "moment", "since": "yesterday"}, "must be a moment, such as"),
        ({"period": "moment", "since": ""}, "must be a moment, such as"),
        ({"period": "ever"}, "must be chosen"),
        ({"period": "1h", "provider_id": ""}, "must be chosen"),
        ({"period": "1h", "provider_id": "prv_00000000000000000000000000"}, "must be chosen"),
        ({"period": "1h", "provider_id": HOSTILE}, "must be chosen"),
    ],
)
async def test_what_cannot_be_recovered_is_told(
    browser: httpx.AsyncClient, installation: Installation, fields: dict[str, str], message: str
) -> None:
    team = await make_team(installation)
    await with_failed(team, 1000)
    answer = await submit(browser, RECOVER, RECOVER, **{"provider_id": team.provider.id, **fields})
    assert answer.status_code == 400
    assert message in text_of(answer.text)
    assert "<script>alert" not in answer.text
    assert await states_of(installation.db) == [State.FAILED]


async def test_the_provider_is_chosen_beforehand(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    shown = await page(browser, f"{RECOVER}?provider_id={team.provider.id}")
    assert f'<option value="{team.provider.id}" selected>' in shown
    assert "Recoveries before" not in shown


async def test_without_a_provider_the_page_says_what_to_do(browser: httpx.AsyncClient) -> None:
    assert "There is no provider yet" in await page(browser, RECOVER)


async def test_earlier_recoveries_are_listed(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    await with_failed(team, 1000)
    done = await submit(browser, RECOVER, RECOVER, provider_id=team.provider.id, period="1h")
    shown = await page(browser, f"{RECOVER}?provider_id={team.provider.id}")
    assert f'href="{done.headers["location"]}"' in shown
    assert "1 delivery finished" in text_of(shown)


async def test_progress_shows_while_it_goes_on(
    browser: httpx.AsyncClient, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "STEP", 2)
    team = await make_team(installation)
    await with_failed(team, *[1000] * 3)
    done = await submit(browser, RECOVER, RECOVER, provider_id=team.provider.id, period="1h")
    path = done.headers["location"]
    begun = await page(browser, path)
    assert "running 2 deliveries taken up so far." in text_of(begun)
    assert (await part(browser, path, "recovery", etag_of(begun))).status_code == 304
    async with installation.db.transaction() as tx:
        running = await replay.next_recovery(tx)
        assert running is not None
        await replay.step(tx, running)
    fresh = await part(browser, path, "recovery", etag_of(begun))
    assert "finished 3 deliveries taken up again." in text_of(fresh.text)
    assert "<html" not in fresh.text


async def test_nothing_to_recover_is_said(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    done = await submit(browser, RECOVER, RECOVER, provider_id=team.provider.id, period="1h")
    assert "Nothing had failed since then" in await page(browser, done.headers["location"])


async def test_a_paused_or_deleted_provider_is_pointed_out(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    done = await submit(browser, RECOVER, RECOVER, provider_id=team.provider.id, period="1h")
    assert "deliveries?state=pending&amp;provider_id=" in (await browser.get(done.headers["location"])).text
    await set_provider(team, team.provider, state="paused")
    assert "held until it is resumed" in await page(browser, done.headers["location"])
    assert "deliveries?state=held&amp;provider_id=" in (await browser.get(done.headers["location"])).text
    async with installation.db.transaction() as tx:
        await control.delete_provider(tx, None, team.provider.id, author=OPERATOR, now=NOW)
    assert "what failed stays failed" in await page(browser, done.headers["location"])


async def test_a_viewer_sees_progress_and_begins_nothing(
    browser: httpx.AsyncClient, viewer: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    done = await submit(browser, RECOVER, RECOVER, provider_id=team.provider.id, period="1h")
    assert "finished" in await page(viewer, done.headers["location"])
    assert (await viewer.get(RECOVER)).status_code == 403
    refused = await submit(viewer, "/console/settings/profile", RECOVER, provider_id=team.provider.id, period="1h")
    assert refused.status_code == 403
    assert len(await rows_of(installation.db, recoveries)) == 1


async def test_what_is_another_organizations_is_not_there(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    await make_team(installation)
    theirs = await make_team(installation, organization_id=await another_organization(installation))
    refused = await submit(browser, RECOVER, RECOVER, provider_id=theirs.provider.id, period="1h")
    assert refused.status_code == 400
    async with installation.db.transaction() as tx:
        begun = await replay.begin_recovery(tx, theirs.provider, since_ms=0, actor=OPERATOR.actor, now=NOW)
    assert (await browser.get(f"{LIST}/recoveries/{begun.id}")).status_code == 404
    assert (await browser.get(f"{LIST}/recoveries/nonsense")).status_code == 404
