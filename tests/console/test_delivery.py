"""The page of one delivery: what is said, every attempt, what happens next, and to deliver it again."""

import json
import re
from typing import Any

import httpx
import pytest

from billhook.accounts.audit import read_trail
from billhook.accounts.installation import Installation
from billhook.delivery import control
from billhook.delivery.store import attempts
from billhook.storage.database import Database
from tests.console.delivery_pages import (
    HOSTILE,
    LIST,
    add_attempt,
    delivery_to,
    etag_of,
    notify,
    page,
    part,
    text_of,
)
from tests.console.support import add_user, submit
from tests.delivery.support import delivery_of, make_team, rows_of, set_deliveries, set_provider, set_values
from tests.groups.setting import NOW, TOKEN
from tests.support import OPERATOR, another_organization, register

AT_MS = 1_780_315_200_000  # 2026-06-01T12:00Z


def path_of(delivery_id: str) -> str:
    return f"{LIST}/{delivery_id}"


async def shown_as(browser: httpx.AsyncClient, db: Database, delivery_id: str, **values: Any) -> str:
    """What the page says of a delivery that stands like this."""
    await set_deliveries(db, delivery_id, **values)
    return text_of(await page(browser, path_of(delivery_id)))


async def set_request(db: Database, delivery_id: str, number: int, **asked: Any) -> None:
    which = (attempts.c.delivery_id == delivery_id, attempts.c.number == number)
    (row,) = await rows_of(db, attempts, *which)
    await set_values(db, attempts, *which, detail=json.dumps(json.loads(row.detail) | {"request": asked}))


async def test_the_page_says_all_about_it(browser: httpx.AsyncClient, installation: Installation) -> None:
    robot = await register(installation, name="Nightly job")
    team = await make_team(installation, name="Costs")
    accepted = await notify(team, "Budget exceeded", "by 5 %\nsince noon", sender=f"client:{robot.client.id}")
    shown = await page(browser, path_of(accepted.deliveries[0].id))
    said = text_of(shown)
    assert "<h1>Budget exceeded</h1>" in shown
    assert "by 5 %\nsince noon" in shown
    assert "pending Waits for its first attempt." in said
    assert "Sent by Nightly job" in said
    assert f'href="/console/settings/api-keys/{robot.client.id}"' in shown
    assert "Pager in Costs" in said
    assert "No attempt yet" in said


async def test_every_state_is_explained(browser: httpx.AsyncClient, installation: Installation) -> None:
    team, db = await make_team(installation), installation.db
    sent = await delivery_to(team)
    failed = await shown_as(browser, db, sent, state="failed", attempts=4, status=500, finished_ms=AT_MS)
    assert "failed Given up after attempt 4." in failed
    assert "The receiver answered 500 Internal Server Error" in failed
    delivered = await shown_as(browser, db, sent, state="delivered", attempts=2, status=200)
    assert "delivered The receiver took attempt 2." in delivered
    await set_provider(team, team.provider, state="paused")
    held = await shown_as(browser, db, sent, state="held", since_ms=AT_MS)
    assert "held The provider is paused." in held
    assert "Held until 2026-06-08 12:00:00 UTC" in held
    assert "Redeliver" not in held


async def test_a_cancelled_one_says_why_and_shows_no_request(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    sent = await delivery_to(team)
    async with installation.db.transaction() as tx:
        await control.delete_provider(tx, None, team.provider.id, author=OPERATOR, now=NOW)
    said = text_of(await page(browser, path_of(sent)))
    assert "cancelled The provider was deleted before this was delivered." in said
    assert "the request can no longer be shown" in said
    assert "Redeliver" not in said


async def test_the_next_attempt_is_a_countdown(browser: httpx.AsyncClient, installation: Installation) -> None:
    sent = await delivery_to(await make_team(installation))
    await set_deliveries(installation.db, sent, attempts=1, status=503, due_ms=AT_MS)
    shown = await page(browser, path_of(sent))
    assert 'data-countdown="2026-06-01T12:00:00.000Z"' in shown
    assert "Next attempt at 2026-06-01 12:00:00 UTC" in text_of(shown)  # where there is no script


async def test_every_attempt_is_shown(browser: httpx.AsyncClient, installation: Installation) -> None:
    sent = await delivery_to(await make_team(installation))
    await add_attempt(installation.db, sent, 1, error="timeout")
    await add_attempt(installation.db, sent, 2, status=404, body="no such hook")
    shown = await page(browser, path_of(sent))
    said = text_of(shown)
    assert re.findall(r'id="(attempt-\d+)" data-version', shown) == ["attempt-2", "attempt-1"]
    assert "404 Not Found" in said
    assert "no such hook" in said
    assert "x-seen: yes" in said
    assert "The receiver took too long." in said
    assert "192.0.2.7:443" in said
    assert "In all 13 ms" in said


async def test_an_attempt_shows_its_own_request(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    sent = await delivery_to(team)
    await add_attempt(installation.db, sent, 1, status=500)  # made before requests were kept
    await add_attempt(installation.db, sent, 2, status=500)
    headers = [["X-Key", "••••"], ["X-Odd", HOSTILE]]
    await set_request(installation.db, sent, 2, method="POST", url="https://old.example/hook?••••", headers=headers)
    async with installation.db.transaction() as tx:
        await control.delete_provider(tx, None, team.provider.id, author=OPERATOR, now=NOW)
    shown = await page(browser, path_of(sent))
    assert re.findall(r'id="(attempt-\d-request)"', shown) == ["attempt-2-request"]
    assert "Request POST https://old.example/hook?•••• X-Key: •••• X-Odd:" in text_of(shown)
    assert "<script>alert" not in shown


async def test_older_attempts_are_on_further_pages(browser: httpx.AsyncClient, installation: Installation) -> None:
    sent = await delivery_to(await make_team(installation))
    for number in range(1, 31):
        await add_attempt(installation.db, sent, number, status=500)
    await set_deliveries(installation.db, sent, attempts=30, status=500)
    newest = await page(browser, path_of(sent))
    assert re.findall(r'id="attempt-(\d+)" data-version', newest) == [str(number) for number in range(30, 10, -1)]
    older = await page(browser, f"{path_of(sent)}?before=11")
    assert f'href="{path_of(sent)}?before=11"' in newest
    assert re.findall(r'id="attempt-(\d+)" data-version', older) == [str(number) for number in range(10, 0, -1)]
    assert "data-live=" not in older
    assert await page(browser, f"{path_of(sent)}?before=nonsense")


async def test_nothing_hostile_gets_through(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    sent = await delivery_to(team, HOSTILE, HOSTILE, sender=HOSTILE)
    await set_provider(team, team.provider, name=HOSTILE)
    await add_attempt(installation.db, sent, 1, status=200, body=HOSTILE)
    shown = await page(browser, path_of(sent))
    assert "<script>alert" not in shown
    assert "<img src=x" not in shown
    assert shown.count("&lt;script&gt;alert") >= 6  # title, content, sender, provider, response, request, curl


async def test_the_request_is_shown_without_its_secrets(browser: httpx.AsyncClient, installation: Installation) -> None:
    sent = await delivery_to(await make_team(installation))
    shown = await page(browser, path_of(sent))
    assert TOKEN not in shown
    assert "very-secret-header" not in shown
    assert "Authorization: ••••" in shown
    assert f"webhook-id: {sent}" in shown
    assert "webhook-signature: v1,&lt;signature&gt;" in shown
    assert "&#34;Authorization: ${HEADER_AUTHORIZATION:?}&#34;" in shown
    assert "{&#34;title&#34;:&#34;Budget exceeded&#34;,&#34;content&#34;:&#34;by 5 %&#34;}" in shown


async def test_a_get_is_shown_with_its_query(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation, request_method="GET", server_url="https://a.example/seen?x=1")
    said = text_of(await page(browser, path_of(await delivery_to(team, "A b", "c&d"))))
    assert "GET https://a.example/seen?x=1&title=A%20b&content=c%26d" in said


async def test_other_deliveries_of_the_notification_are_named(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation, 3)
    accepted = await notify(team)
    first, *others = (each.id for each in accepted.deliveries)
    shown = await page(browser, path_of(first))
    assert all(f'href="{path_of(each)}"' in shown for each in others)
    assert f'href="{LIST}?notification_id={accepted.id}"' in shown


async def test_the_live_part_is_sent_only_when_it_has_changed(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    sent = await delivery_to(await make_team(installation))
    seen = etag_of(await page(browser, path_of(sent)))
    assert (await part(browser, path_of(sent), "delivery", seen)).status_code == 304
    await add_attempt(installation.db, sent, 1, status=500)
    await set_deliveries(installation.db, sent, attempts=1, status=500)
    fresh = await part(browser, path_of(sent), "delivery", seen)
    assert fresh.text.lstrip().startswith('<div id="delivery"')
    assert 'id="attempt-1"' in fresh.text
    assert "The request" not in fresh.text
    assert (await part(browser, path_of(sent), "delivery", etag_of(fresh.text))).status_code == 304


async def test_an_admin_delivers_again(browser: httpx.AsyncClient, installation: Installation) -> None:
    sent = await delivery_to(await make_team(installation))
    await set_deliveries(installation.db, sent, state="failed", attempts=4, status=500, finished_ms=AT_MS)
    answer = await submit(browser, path_of(sent), f"{path_of(sent)}/redeliver")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path_of(sent)}?done=redelivering")
    found = await delivery_of(installation.db, sent)
    assert (found.state, found.charged, found.status) == ("pending", 0, None)
    async with installation.db.reading() as tx:
        (noted,) = await read_trail(tx, subject=sent)
    assert (noted.action, noted.actor[:9]) == ("delivery.redelivered", "user:usr_")
    assert "Waits to be delivered again." in text_of(await page(browser, answer.headers["location"]))


async def test_one_that_is_under_way_is_not_delivered_again(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    sent = await delivery_to(await make_team(installation))
    token_page = path_of(await delivery_to(await make_team(installation, name="Other")))
    await set_deliveries(installation.db, sent, lease="somebody")
    answer = await submit(browser, token_page, f"{path_of(sent)}/redeliver")
    assert answer.status_code == 409
    assert "being attempted at this moment" in answer.text
    assert f'data-from="{path_of(sent)}"' in answer.text


async def test_nothing_is_delivered_again_to_a_provider_that_is_deleted(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    sent = await delivery_to(team)
    token_page = path_of(await delivery_to(await make_team(installation, name="Other")))
    async with installation.db.transaction() as tx:
        await control.delete_provider(tx, None, team.provider.id, author=OPERATOR, now=NOW)
    answer = await submit(browser, token_page, f"{path_of(sent)}/redeliver")
    assert answer.status_code == 409
    assert "the provider of this delivery is deleted" in answer.text


async def test_a_viewer_may_only_look(viewer: httpx.AsyncClient, installation: Installation) -> None:
    sent = await delivery_to(await make_team(installation))
    assert "Attempt now" not in await page(viewer, path_of(sent))
    answer = await submit(viewer, path_of(sent), f"{path_of(sent)}/redeliver")
    assert answer.status_code == 403
    assert (await delivery_of(installation.db, sent)).since_ms == (await delivery_of(installation.db, sent)).created_ms


async def test_what_is_another_organizations_is_not_there(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    theirs = await make_team(installation, organization_id=await another_organization(installation))
    sent, ours = await delivery_to(theirs), await delivery_to(await make_team(installation))
    assert (await browser.get(path_of(sent))).status_code == 404
    assert (await part(browser, path_of(sent), "delivery", "x")).status_code == 404
    assert (await submit(browser, path_of(ours), f"{path_of(sent)}/redeliver")).status_code == 404


@pytest.mark.parametrize("id", ["x", "dlv_00000000000000000000000000", "dlv_%00", "%27%20or%201"])
async def test_what_is_no_delivery_is_not_found(browser: httpx.AsyncClient, id: str) -> None:
    assert "There is no such delivery" in await page(browser, f"{LIST}/{id}", status=404)


@pytest.mark.parametrize(
    ("sender", "shown"),
    [
        ("cli:root", "the command line"),
        ("client:cli_00000000000000000000000000", "cli_00000000000000000000000000"),
        ("user:usr_00000000000000000000000000", "usr_00000000000000000000000000"),
    ],
)
async def test_senders_that_are_gone_are_named_by_their_id(
    browser: httpx.AsyncClient, installation: Installation, sender: str, shown: str
) -> None:
    sent = await delivery_to(await make_team(installation), sender=sender)
    assert f"Sent by {shown}" in text_of(await page(browser, path_of(sent)))


async def test_a_user_is_named_by_email(browser: httpx.AsyncClient, installation: Installation) -> None:
    person = await add_user(installation, email="sender@example.com")
    sent = await delivery_to(await make_team(installation), sender=f"user:{person.id}")
    assert "Sent by sender@example.com" in text_of(await page(browser, path_of(sent)))
