"""Send by hand, and the whole path of the seed down to a request that has arrived."""

import re
from collections.abc import AsyncIterator
from ipaddress import ip_network

import httpx
import orjson
import pytest

from billhook.accounts.installation import Installation
from billhook.app import App, running_app
from billhook.delivery.store import State, deliveries, notifications
from billhook.groups.model import ProviderState
from billhook.settings import Settings
from tests.console.group_pages import (
    HOSTILE,
    START,
    add_group,
    add_provider,
    address,
    follow,
    mistakes,
    press,
    request_of,
    sheet,
    text_of,
)
from tests.delivery.receivers import received
from tests.delivery.support import Team, make_team, rows_of, set_provider
from tests.outbound.receivers import RawReceiver
from tests.support import until

CONTENT = 'Line one & two = 100 %\n<b>"quoted"</b> café 🪝'


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """This machine may be reached."""
    return settings.model_copy(update={"outbound_allow": (ip_network("127.0.0.0/8"),)})


@pytest.fixture
async def app(installation: Installation) -> AsyncIterator[App]:
    async with running_app(installation, with_worker=True) as running:
        yield running


def form_of(team: Team) -> str:
    return f"{START}/groups/{team.group.id}/send"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_path_of_the_seed(browser: httpx.AsyncClient, receiver: RawReceiver, method: str) -> None:
    """Notifications, add a provider group, choose type Webhook, name, server URL, method, headers, Save; then send."""
    group = await add_group(browser, "Budget alerts")
    url = receiver.url("/hook?team=a")
    await add_provider(browser, group, url, ("Authorization", "Bearer one"), ("X-Two", "2"), name="Chat", method=method)
    form = sheet(await browser.get(f"{address(group)}/send"), "/send").typed(title="Budget exceeded", content=CONTENT)
    answer = await press(browser, form)
    assert answer.status_code == 303
    assert "/console/deliveries?notification_id=ntf_" in answer.headers["location"]

    async def has_arrived() -> bool:
        return bool(receiver.requests)

    await until(has_arrived)
    (sent,) = received(receiver)
    assert (sent.method, sent.all("authorization"), sent.all("x-two")) == (method, ["Bearer one"], ["2"])
    if method == "POST":
        assert orjson.loads(sent.body) == {"title": "Budget exceeded", "content": CONTENT}
        assert sent.target == "/hook?team=a"
    else:
        said = httpx.URL(f"http://receiver{sent.target}").params
        assert dict(said) == {"team": "a", "title": "Budget exceeded", "content": CONTENT}
        assert sent.body == b""


async def test_it_shows_who_is_told_and_what_they_get(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation, 2)
    await set_provider(team, team.providers[1], state=ProviderState.PAUSED, name="On holiday")
    page = await browser.get(form_of(team))
    assert "Pager never used" in text_of(page)
    assert "On holiday paused held until it is resumed, for 7 days at most" in text_of(page)
    assert "What Pager gets" in text_of(page)
    assert request_of(page).startswith("POST /hook?token=very-secret-query HTTP/1.1")


async def test_the_preview_follows_what_is_typed(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    form = sheet(await browser.get(form_of(team)), "/send").typed(title="Typed", content=CONTENT)
    answer = await press(browser, form, to=f"{form_of(team)}/preview")
    assert "<html" not in answer.text
    body = request_of(answer).partition("\n\n")[2]
    assert orjson.loads(body) == {"title": "Typed", "content": CONTENT}


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"title": "", "content": "c"}, "title"),
        ({"title": "t" * 257, "content": "c"}, "title"),
        ({"title": "t", "content": ""}, "content"),
        ({"title": "t", "content": "c" * (32 * 1024 + 1)}, "content"),
    ],
)
async def test_a_mistake_stands_beside_its_field_and_nothing_is_lost(
    browser: httpx.AsyncClient, installation: Installation, typed: dict[str, str], field: str
) -> None:
    team = await make_team(installation)
    answer = await press(browser, sheet(await browser.get(form_of(team)), "/send").typed(**typed))
    assert answer.status_code == 400
    assert mistakes(answer).keys() == {field}
    again = sheet(answer, "/send")
    assert {name: again[name] for name in typed} == typed
    assert await rows_of(installation.db, notifications) == []


async def test_nothing_is_cut_off_in_silence(browser: httpx.AsyncClient, installation: Installation) -> None:
    """A browser cuts off what is pasted into a field that has a maxlength."""
    page = await browser.get(form_of(await make_team(installation)))
    assert not re.search(r'<textarea id="content"[^>]* maxlength=', page.text)


async def test_what_is_too_long_for_a_provider_is_told_beside_the_content(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation, request_method="GET")
    form = sheet(await browser.get(form_of(team)), "/send").typed(title="t", content="c" * 9000)
    answer = await press(browser, form)
    assert answer.status_code == 400
    said = mistakes(answer)["content"]
    assert said.startswith("provider Pager: too long for GET")
    assert said.endswith("; shorten it, or switch it to POST")
    assert "It cannot be sent: too long for GET" in text_of(answer)


async def test_a_form_sends_once_however_often_it_is_sent(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    form = sheet(await browser.get(form_of(team)), "/send").typed(title="Once", content="c")
    first, second = await press(browser, form), await press(browser, form)
    assert first.headers["location"] == second.headers["location"]
    assert len(await rows_of(installation.db, notifications)) == 1


async def test_a_form_that_was_sent_can_send_something_else_on_demand(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    """As after the browser's own way back."""
    team = await make_team(installation)
    form = sheet(await browser.get(form_of(team)), "/send").typed(title="First", content="c")
    await press(browser, form)
    asked = await press(browser, form.typed(title="Second"))
    assert asked.status_code == 409
    assert "This form was sent already." in text_of(asked)
    assert (await press(browser, sheet(asked, "/send"))).status_code == 303
    assert [row.title for row in await rows_of(installation.db, notifications)] == ["First", "Second"]


async def test_nobody_to_tell_is_told(browser: httpx.AsyncClient) -> None:
    group = await add_group(browser)
    page = await browser.get(f"{address(group)}/send")
    assert "Nobody: the group has no provider." in text_of(page)
    answer = await press(browser, sheet(page, "/send").typed(title="t", content="c"))
    assert answer.status_code == 200
    assert "Accepted, but the group has no active provider: nobody will be told." in text_of(answer)


async def test_what_is_only_held_is_told(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    await set_provider(team, team.provider, state=ProviderState.PAUSED)
    answer = await press(browser, sheet(await browser.get(form_of(team)), "/send").typed(title="t", content="c"))
    assert "nobody will be told before one is resumed" in text_of(answer)
    assert [row.state for row in await rows_of(installation.db, deliveries)] == [State.HELD]


async def test_who_sent_it_is_kept(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    form = sheet(await browser.get(form_of(team)), "/send").typed(title="t", content="c")
    page = await follow(browser, await press(browser, form))
    assert "Accepted. Its deliveries are below." in text_of(page)
    (row,) = await rows_of(installation.db, notifications)
    assert row.sender.startswith("user:usr_")


async def test_hostile_text_is_shown_as_text(browser: httpx.AsyncClient, installation: Installation) -> None:
    team = await make_team(installation)
    form = sheet(await browser.get(form_of(team)), "/send").typed(title=HOSTILE, content="")
    for answer in (await press(browser, form), await press(browser, form, to=f"{form_of(team)}/preview")):
        assert "<script>alert" not in answer.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text
