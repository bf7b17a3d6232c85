"""One provider in the browser: how it is doing, its signing secret, and what one can do with it."""

import re
import time
from datetime import timedelta
from ipaddress import ip_network

import httpx
import pytest
from standardwebhooks import Webhook

from billhook.accounts.installation import Installation
from billhook.console import providers
from billhook.delivery import trial
from billhook.delivery.store import State
from billhook.groups.model import ProviderState
from billhook.providers.kinds import MASK
from billhook.settings import Settings
from tests.console.group_pages import (
    HOSTILE,
    START,
    add_group,
    add_provider,
    address,
    follow,
    press,
    request_of,
    sheet,
    text_of,
)
from tests.delivery.receivers import received
from tests.delivery.support import Team, make_team, provider_of, send, set_provider, states_of
from tests.outbound.receivers import RawReceiver

SECRET = re.compile(r'id="signing-secret"[^>]*value="(whsec_[^"]+)"')


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """This machine may be reached."""
    return settings.model_copy(update={"outbound_allow": (ip_network("127.0.0.0/8"),)})


def page_of(team: Team) -> str:
    return f"{START}/groups/{team.group.id}/providers/{team.provider.id}"


def secret_on(page: httpx.Response) -> str:
    found = SECRET.search(page.text)
    assert found is not None, text_of(page)
    return found[1]


async def test_a_new_provider_is_available_inside_its_group(browser: httpx.AsyncClient) -> None:
    group = await add_group(browser)
    made = await add_provider(browser, group, name="Finance chat")
    assert "Saved. The provider is available inside its group." in text_of(made)
    assert "Finance chat" in text_of(await browser.get(address(group)))


async def test_its_settings_are_shown_and_its_values_are_not(
    browser: httpx.AsyncClient, viewer: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    for reader, query in ((browser, "token=very-secret-query"), (viewer, MASK)):
        page = await reader.get(page_of(team))
        said = text_of(page)
        assert f"Server URL https://receiver.example/hook?{query} Request method POST" in said
        assert f"Authorization: {MASK}" in said
        assert "very-secret-header" not in page.text
        assert request_of(page).startswith(f"POST /hook?{query} HTTP/1.1\nHost: receiver.example\n")
        assert "Attempts in the last 24 hours" in said
        assert "Nothing was sent yet" in said


async def test_the_chart_goes_back_a_day_or_a_week(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    assert "Attempts in the last 7 days" in text_of(await browser.get(f"{page_of(team)}?span=7d"))
    assert "Attempts in the last 24 hours" in text_of(await browser.get(f"{page_of(team)}?span=nonsense"))


async def test_its_last_deliveries_are_shown(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, providers.RECENT + 2)
    page = await browser.get(page_of(team))
    assert page.text.count('<span class="badge ">pending</span>') == providers.RECENT
    assert "Title 11" in page.text
    assert "Waiting to be sent 12 deliveries" in text_of(page)
    assert f"/console/deliveries?provider_id={team.provider.id}" in page.text


async def test_how_it_is_doing_is_told_in_a_sentence(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    await set_provider(
        team, team.provider, state=ProviderState.DISABLED, state_reason="every attempt failed for 72 hours"
    )
    said = text_of(await browser.get(page_of(team)))
    assert "Disabled because every attempt failed for 72 hours. Mend the receiver, then resume." in said


# The signing secret


async def test_the_secret_is_shown_to_who_made_it_then_masked_then_shown_on_demand(
    browser: httpx.AsyncClient, viewer: httpx.AsyncClient
) -> None:
    made = await add_provider(browser, await add_group(browser))
    secret = secret_on(made)
    assert made.headers["cache-control"] == "no-store"
    later = await browser.get(address(made))
    assert secret not in later.text
    assert f"whsec_{MASK}" in later.text
    assert secret_on(await press(browser, sheet(later, "/signing-secret"))) == secret
    assert secret not in (await viewer.get(str(made.url))).text


async def test_a_link_that_says_so_does_not_show_an_old_secret(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await add_provider(browser, await add_group(browser))
    monkeypatch.setattr(providers, "FRESH", timedelta(0))
    assert secret_on(made) not in (await browser.get(str(made.url))).text


async def test_a_rotated_secret_is_shown_and_both_sign_for_a_day(
    browser: httpx.AsyncClient, receiver: RawReceiver
) -> None:
    made = await add_provider(browser, await add_group(browser), receiver.url())
    rotated = await follow(browser, await press(browser, sheet(made, "/rotate-signing-secret")))
    before, now = secret_on(made), secret_on(rotated)
    assert before != now
    assert "Requests are signed with the secret before this one as well, until" in text_of(rotated)
    await press(browser, sheet(rotated, "/test"))
    (sent,) = received(receiver)
    for secret in (before, now):
        assert Webhook(secret).verify(sent.signed, dict(sent.headers))


async def test_reloading_the_page_does_not_rotate_again(browser: httpx.AsyncClient) -> None:
    made = await add_provider(browser, await add_group(browser))
    rotated = await follow(browser, await press(browser, sheet(made, "/rotate-signing-secret")))
    assert secret_on(await browser.get(str(rotated.url))) == secret_on(rotated)


@pytest.mark.parametrize(("method", "payload"), [("POST", "the body, byte for byte"), ("GET", "the query string")])
async def test_it_says_how_to_verify_for_its_method(browser: httpx.AsyncClient, method: str, payload: str) -> None:
    made = await add_provider(browser, await add_group(browser), method=method)
    said = text_of(made)
    assert payload in said
    assert ("standardwebhooks import Webhook" in said) == (method == "POST")
    assert 'id="snippet-python"' in made.text
    assert 'id="snippet-node"' in made.text


# What one can do


async def test_a_saved_provider_is_tested(browser: httpx.AsyncClient, receiver: RawReceiver) -> None:
    made = await add_provider(browser, await add_group(browser), receiver.url(), ("Authorization", "Bearer stored"))
    answer = await press(browser, sheet(made, "/test"))
    assert "It works: the receiver took the request." in text_of(answer)
    (sent,) = received(receiver)
    assert sent.all("authorization") == ["Bearer stored"]
    assert Webhook(secret_on(made)).verify(sent.body.decode(), dict(sent.headers))


async def test_a_test_of_what_is_gone_only_says_so_in_its_box(browser: httpx.AsyncClient) -> None:
    made = await add_provider(browser, await add_group(browser))
    form = sheet(made, "/test")
    await press(browser, sheet(await browser.get(f"{address(made)}/delete"), "/delete"))
    whole = await press(browser, form)
    assert (whole.status_code, "<h1>" in whole.text) == (404, True)
    browser.headers["X-Fragment"] = "test-result"
    answer = await press(browser, form)
    assert answer.status_code == 404
    assert '<div id="test-result"><p class="notice bad" role="alert">There is no such provider' in answer.text
    assert "<html" not in answer.text


async def test_too_many_tests_at_once_are_told(browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await add_provider(browser, await add_group(browser))
    monkeypatch.setattr(trial, "MOST_AT_ONCE", 0)
    answer = await press(browser, sheet(made, "/test"))
    assert answer.status_code == 429
    assert "too many tests at once" in text_of(answer)
    part = answer.text.partition('id="test-result"')[2].partition("</div>")[0]
    assert "Nothing was sent: too many tests at once" in part, "the script shows only this part"


async def test_it_is_paused_and_resumed(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    await send(team, 2)
    paused = await follow(browser, await press(browser, sheet(await browser.get(page_of(team)), "/pause")))
    assert "Paused. What is sent meanwhile is held for 7 days." in text_of(paused)
    assert await states_of(installation.db) == [State.HELD, State.HELD]
    resumed = await follow(browser, await press(browser, sheet(paused, "/resume")))
    assert "Resumed. What was held is on its way." in text_of(resumed)
    assert await states_of(installation.db) == [State.PENDING, State.PENDING]


async def test_a_disabled_one_is_resumed_from_its_page(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    await set_provider(team, team.provider, state=ProviderState.DISABLED, state_reason="the receiver answered 410 Gone")
    await follow(browser, await press(browser, sheet(await browser.get(page_of(team)), "/resume")))
    assert (await provider_of(team)).state == ProviderState.ACTIVE


async def test_deleting_it_says_first_what_it_cancels_and_then_does_it(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation, 2)
    await send(team)
    asked = await browser.get(f"{page_of(team)}/delete")
    assert "1 delivery that still waits to be sent is cancelled." in text_of(asked)
    assert await states_of(installation.db) == [State.PENDING, State.PENDING]
    done = await follow(browser, await press(browser, sheet(asked, "/delete")))
    assert "What was still queued for it is cancelled" in text_of(done)
    assert sorted(await states_of(installation.db)) == [State.CANCELLED, State.PENDING]
    assert (await browser.get(page_of(team))).status_code == 404


async def test_failures_lead_to_their_recovery(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    link = f"/console/deliveries/recover?provider_id={team.provider.id}"
    assert link not in (await browser.get(page_of(team))).text
    await set_provider(team, team.provider, last_failure_ms=time.time_ns() // 1_000_000, failures=1)
    assert link in (await browser.get(page_of(team))).text


async def test_hostile_text_is_shown_as_text(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(
        installation, name=HOSTILE, server_url="https://receiver.example/?q=<script>alert(1)</script>"
    )
    await set_provider(team, team.provider, name=HOSTILE, state_reason=HOSTILE, state=ProviderState.DISABLED)
    for page in (page_of(team), f"{page_of(team)}/edit", f"{page_of(team)}/delete"):
        shown = await browser.get(page)
        assert shown.status_code == 200
        assert "<script>alert" not in shown.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown.text
