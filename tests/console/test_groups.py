"""Groups in the browser: add, see how they are doing, rename, delete."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from billhook.accounts.installation import Installation
from billhook.accounts.users import Role
from billhook.app import App
from billhook.console import groups
from billhook.delivery import holding
from billhook.delivery.store import State
from billhook.groups.model import ProviderState
from billhook.settings import Settings
from billhook.storage.database import Database
from tests.console.group_pages import HOSTILE, START, add_group, address, follow, mistakes, press, sheet, text_of
from tests.console.support import add_user, form_token, signed_in
from tests.delivery.support import Team, make_team, send, set_provider, states_of
from tests.groups.setting import make_group, make_provider
from tests.support import another_organization


def page_of(team: Team) -> str:
    return f"{START}/groups/{team.group.id}"


async def test_at_first_there_is_nothing_but_what_to_do_next(
    browser: httpx.AsyncClient, viewer: httpx.AsyncClient
) -> None:
    mine, theirs = text_of(await browser.get(START)), text_of(await viewer.get(START))
    assert "No provider group yet Add a group" in mine
    assert "Add provider group" in mine
    assert "An admin of your organization can add one" in theirs
    assert "Add provider group" not in theirs


async def test_a_new_group_asks_for_its_first_provider(browser: httpx.AsyncClient) -> None:
    page = await add_group(browser, "Budget alerts")
    assert "Budget alerts" in text_of(page)
    assert "No provider yet" in text_of(page)
    assert f'href="{address(page)}/providers/new">Add provider</a>' in page.text
    assert "This group has no provider: what is sent through it reaches nobody" in text_of(await browser.get(START))


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "a\x07b"])
async def test_a_wrong_name_is_told_beside_its_field_and_kept(browser: httpx.AsyncClient, name: str) -> None:
    answer = await press(browser, sheet(await browser.get(START), "/groups").typed(name=name))
    assert answer.status_code == 400
    assert mistakes(answer).keys() == {"name"}
    assert sheet(answer, "/groups")["name"] == name


async def test_a_name_that_is_taken_is_told_beside_its_field(browser: httpx.AsyncClient) -> None:
    await add_group(browser, "Ops")
    answer = await press(browser, sheet(await browser.get(START), "/groups").typed(name="Ops"))
    assert answer.status_code == 409
    assert mistakes(answer) == {"name": "another group has this name"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"max_groups": 3})


async def test_one_group_too_many_is_told(browser: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await add_group(browser, name)
    answer = await press(browser, sheet(await browser.get(START), "/groups").typed(name="d"))
    assert answer.status_code == 409
    assert "as many groups as it may have" in mistakes(answer)["name"]


async def test_the_list_shows_how_each_provider_is_doing(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation, 5)
    well, failing, paused, disabled, _unused = team.providers
    await set_provider(team, well, last_success_ms=1_780_000_000_000, name="Well")
    await set_provider(team, failing, failures=2, failing_since_ms=1_780_000_000_000, last_failure_ms=1_780_000_060_000)
    await set_provider(team, paused, state=ProviderState.PAUSED)
    await set_provider(team, disabled, state=ProviderState.DISABLED)
    for page in (await browser.get(START), await browser.get(page_of(team))):
        said = text_of(page)
        assert "Well Webhook POST receiver.example healthy 2026-05-28 20:26:40 UTC delivered" in said
        assert "failing since 2026-05-28 20:26:40 UTC 2026-05-28 20:27:40 UTC failed" in said
        assert all(word in said for word in ("paused none yet", "disabled none yet", "never used none yet"))
        assert "very-secret-query" not in page.text
        assert page.text.count('aria-label="Last 24 hours: 0 delivered, 0 failed"') == 5


async def test_a_group_with_many_providers_shows_some_and_leads_to_all(
    browser: httpx.AsyncClient, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = await make_team(installation, 5)
    monkeypatch.setattr(groups, "MEMBERS_SHOWN", 2)
    monkeypatch.setattr(groups, "PROVIDERS_A_PAGE", 3)
    overview = await browser.get(START)
    assert overview.text.count('<td class="name">') == 2
    assert "All 5 providers" in text_of(overview)
    first = await browser.get(page_of(team))
    assert first.text.count('<td class="name">') == 3
    second = await browser.get(f"{page_of(team)}?after={sorted(p.id for p in team.providers)[2]}")
    assert second.text.count('<td class="name">') == 2
    beyond = await browser.get(f"{page_of(team)}?after={min(p.id for p in team.providers)}")
    assert "There are no older providers" in text_of(beyond)


async def test_many_groups_are_shown_page_by_page(
    browser: httpx.AsyncClient, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "GROUPS_A_PAGE", 2)
    made = [await make_group(installation, f"Group {number}") for number in range(3)]
    first = await browser.get(START)
    assert ["Group 2" in first.text, "Group 1" in first.text, "Group 0" in first.text] == [True, True, False]
    older = f"{START}?after={made[1].id}"
    assert older in first.text
    assert "Group 0" in (await browser.get(older)).text
    assert "There are no older groups" in text_of(await browser.get(f"{START}?after={made[0].id}"))
    assert "Group 2" in (await browser.get(f"{START}?after=nonsense")).text


@asynccontextmanager
async def statements(db: Database) -> AsyncIterator[list[str]]:
    """Those about groups and providers; what goes on beside the requests does not count."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if any(f"FROM {table}" in statement for table in ("groups", "providers", "attempt_counts")):
            seen.append(statement)

    engines = {id(engine.sync_engine.pool): engine.sync_engine for engine in (db.writer, db.reader)}
    for engine in engines.values():
        event.listen(engine, "before_cursor_execute", note)
    yield seen
    for engine in engines.values():
        event.remove(engine, "before_cursor_execute", note)


async def test_a_list_takes_as_many_queries_for_many_as_for_one(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    one = await make_team(installation, 1, "One")
    async with statements(installation.db) as few:
        await browser.get(START)
        await browser.get(page_of(one))
    many = await make_team(installation, 9, "Many")
    await make_team(installation, 9, "More")
    async with statements(installation.db) as as_many:
        await browser.get(START)
        await browser.get(page_of(many))
    assert len(as_many) == len(few) == 6


async def test_a_group_is_renamed(browser: httpx.AsyncClient) -> None:
    page = await add_group(browser, "Ops")
    renamed = await follow(browser, await press(browser, sheet(page, "/rename").typed(name="Finance")))
    assert "Renamed." in text_of(renamed)
    assert "<h1>Finance</h1>" in renamed.text


async def test_a_wrong_new_name_is_told_beside_its_field_and_kept(browser: httpx.AsyncClient) -> None:
    await add_group(browser, "Taken")
    page = await add_group(browser, "Ops")
    answer = await press(browser, sheet(page, "/rename").typed(name="Taken"))
    assert answer.status_code == 409
    assert mistakes(answer) == {"name": "another group has this name"}
    assert sheet(answer, "/rename")["name"] == "Taken"
    assert "<h1>Ops</h1>" in answer.text


async def test_deleting_a_group_says_first_what_it_cancels_and_then_does_it(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation, 2)
    await send(team, 3)
    asked = await browser.get(f"{page_of(team)}/delete")
    assert "Its 2 providers are deleted with it, with their signing secrets." in text_of(asked)
    assert "6 deliveries that still wait to be sent are cancelled." in text_of(asked)
    assert set(await states_of(installation.db)) == {State.PENDING}
    done = await follow(browser, await press(browser, sheet(asked, "/delete")))
    assert "What was still queued for it is cancelled" in text_of(done)
    assert set(await states_of(installation.db)) == {State.CANCELLED}
    assert (await browser.get(page_of(team))).status_code == 404


async def test_a_very_long_queue_is_not_counted_to_its_end(
    browser: httpx.AsyncClient, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "MOST_COUNTED", 2)
    team = await make_team(installation)
    await send(team, 4)
    asked = text_of(await browser.get(f"{page_of(team)}/delete"))
    assert "More than 2 deliveries that still wait to be sent are cancelled." in asked


async def test_an_empty_group_is_deleted_without_further_ado(browser: httpx.AsyncClient) -> None:
    page = await add_group(browser)
    asked = await browser.get(f"{address(page)}/delete")
    assert "It has no provider." in text_of(asked)
    assert "Nothing waits to be sent, so nothing is cancelled." in text_of(asked)
    await follow(browser, await press(browser, sheet(asked, "/delete")))
    assert "No provider group yet" in text_of(await browser.get(START))


READABLE = ["", "/groups/{group}", "/groups/{group}/providers/{provider}"]
CHANGING = [
    ("GET", "/groups/{group}/delete"),
    ("GET", "/groups/{group}/send"),
    ("GET", "/groups/{group}/providers/new"),
    ("GET", "/groups/{group}/providers/{provider}/edit"),
    ("GET", "/groups/{group}/providers/{provider}/delete"),
    ("POST", "/groups"),
    ("POST", "/groups/{group}/rename"),
    ("POST", "/groups/{group}/delete"),
    ("POST", "/groups/{group}/send"),
    ("POST", "/groups/{group}/send/preview"),
    ("POST", "/groups/{group}/providers/new"),
    ("POST", "/groups/{group}/providers/preview"),
    ("POST", "/groups/{group}/providers/test"),
    ("POST", "/groups/{group}/providers/{provider}/edit"),
    ("POST", "/groups/{group}/providers/{provider}/test"),
    ("POST", "/groups/{group}/providers/{provider}/pause"),
    ("POST", "/groups/{group}/providers/{provider}/resume"),
    ("POST", "/groups/{group}/providers/{provider}/signing-secret"),
    ("POST", "/groups/{group}/providers/{provider}/rotate-signing-secret"),
    ("POST", "/groups/{group}/providers/{provider}/delete"),
]


async def test_a_viewer_sees_everything_and_changes_nothing(
    viewer: httpx.AsyncClient, installation: Installation
) -> None:
    team = await make_team(installation)
    names = {"group": team.group.id, "provider": team.provider.id}
    for path in READABLE:
        page = await viewer.get(START + path.format(**names))
        assert page.status_code == 200
        assert not [
            word for word in ("Add provider", "Delete", "Rotate", "Pause", "/edit", "/send") if word in page.text
        ]
    token = await form_token(viewer, START)
    for method, path in CHANGING:
        data = {"form_token": token, "name": "x"} if method == "POST" else None
        answer = await viewer.request(method, START + path.format(**names), data=data)
        assert answer.status_code == 403, path


async def test_another_organizations_group_is_as_good_as_absent(
    app: App, installation: Installation, browser: httpx.AsyncClient
) -> None:
    team = await make_team(installation)
    names = {"group": team.group.id, "provider": team.provider.id}
    stranger = await add_user(
        installation,
        email="else@example.com",
        role=Role.ADMIN,
        organization_id=await another_organization(installation),
    )
    async with signed_in(app, installation, stranger) as elsewhere:
        assert team.group.name not in text_of(await elsewhere.get(START))
        token = await form_token(elsewhere, START)
        for path in READABLE[1:]:
            assert (await elsewhere.get(START + path.format(**names))).status_code == 404
        for method, path in CHANGING[:5] + CHANGING[6:]:
            data = {"form_token": token, "name": "x", "title": "t", "content": "c"} if method == "POST" else None
            answer = await elsewhere.request(method, START + path.format(**names), data=data)
            assert answer.status_code == 404, path
    assert (await browser.get(page_of(team))).status_code == 200


async def test_a_provider_is_not_found_in_another_group(browser: httpx.AsyncClient, installation: Installation) -> None:
    team, other = await make_team(installation), await make_group(installation, "Other")
    path = f"{START}/groups/{other.id}/providers/{team.provider.id}"
    for page in (
        path,
        f"{path}/edit",
        f"{path}/delete",
        f"{START}/groups/{other.id}/providers/new?copy_of={team.provider.id}",
    ):
        assert (await browser.get(page)).status_code == 404


async def test_hostile_names_are_shown_as_text(browser: httpx.AsyncClient, installation: Installation) -> None:
    group = await make_group(installation, HOSTILE)
    provider, _ = await make_provider(installation, group.id, name=HOSTILE)
    path = f"/groups/{group.id}/providers/{provider.id}"
    for page in ("", f"/groups/{group.id}", f"/groups/{group.id}/delete", f"/groups/{group.id}/send", path):
        shown = await browser.get(START + page)
        assert shown.status_code == 200
        assert "<script>alert" not in shown.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown.text
        assert "{{ 7*7 }}" in shown.text
