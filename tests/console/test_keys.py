"""The pages of API keys: whatever the API can do with a client, a person can do here."""

import html
import re

import httpx
import pytest

from billhook.accounts.audit import read_trail
from billhook.accounts.installation import Installation
from billhook.auth.context import Auth
from billhook.auth.credentials import Refused
from billhook.auth.model import GRACES, ClientState, spell_lifespan
from billhook.console import keys
from tests.console.key_pages import (
    GOOD,
    HOSTILE,
    KEYS,
    NEW,
    copied,
    credentials,
    make,
    mistakes,
    names,
    page_of,
    stored,
    text_of,
    unseen,
    works,
)
from tests.console.support import submit
from tests.support import another_organization, on_one_engine, register

ACTIONS = ["change", "rotate", "revoke", "revoke-tokens", "secrets/0123456789/revoke"]


# The list


async def test_an_empty_list_says_what_to_do_next(browser: httpx.AsyncClient, viewer: httpx.AsyncClient) -> None:
    assert "Create the first API key" in (await browser.get(KEYS)).text
    seen = (await viewer.get(KEYS)).text
    assert "An admin of your organization can create one" in seen
    assert NEW not in seen


async def test_the_list_shows_what_a_key_may_and_when_it_was_used(
    browser: httpx.AsyncClient, http: httpx.AsyncClient, installation: Installation, auth: Auth
) -> None:
    made = await register(installation, name="robot", scopes=("groups:read", "clients:read"))
    await auth.registry.refresh()
    before = text_of(await browser.get(KEYS))
    assert f"robot {made.client.id} groups:read clients:read 1 hour never active" in before
    assert await works(http, made.credentials)
    await auth.activity.flush(auth.db)
    assert re.search(r"1 hour \S+ \S+ UTC from 127\.0\.0\.1 active", text_of(await browser.get(KEYS)))


async def test_the_list_is_paged_and_searched_on_the_server(
    browser: httpx.AsyncClient, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "PAGE", 2)
    made = [await register(installation, name=name) for name in ("red & one", "blue", "red & two", "red & three")]
    first = await browser.get(KEYS, params={"q": "RED &"})
    assert names(first) == ["red & three", "red & two"]
    older = re.search(r'rel="next" href="([^"]*)"', first.text)
    assert older is not None
    second = await browser.get(html.unescape(older[1]))
    assert names(second) == ["red & one"]
    assert 'rel="next"' not in second.text
    assert names(await browser.get(KEYS, params={"q": made[1].client.id})) == ["blue"]
    assert names(await browser.get(KEYS)) == ["red & three", "red & two"]


@on_one_engine
async def test_a_search_that_finds_nothing_says_so_and_leads_back(browser: httpx.AsyncClient) -> None:
    page = await browser.get(KEYS, params={"q": HOSTILE})
    assert f"No key matches “{HOSTILE}”" in text_of(page)
    assert "<script>alert" not in page.text
    assert "Show all keys" in page.text


async def test_a_search_looks_at_so_many_keys_and_leads_on_to_the_next(
    browser: httpx.AsyncClient, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "LOOKED_AT", 2)
    for name in ("Wanted", "other 1", "other 2", "Wanted too", "other 3"):
        await register(installation, name=name)
    first = await browser.get(f"{KEYS}?q=wanted")
    assert "Wanted too" in first.text
    assert "Of 2 keys that were looked at" in text_of(first)
    second = await browser.get(further(first))
    assert "None of these 2 keys matches “wanted”" in text_of(second)
    third = await browser.get(further(second))
    assert "Wanted" in text_of(third)
    assert "Look further" not in third.text


def further(page: httpx.Response) -> str:
    found = re.search(r'rel="next" href="([^"]*)">Look further', page.text)
    assert found is not None, page.text
    return html.unescape(found[1])


@pytest.mark.parametrize(
    "query", ["q=%00", "q=%FF", "after=nonsense", "after=%00", "q=" + "x" * 5000, "q=%&after=cli_"]
)
async def test_no_search_breaks_the_list(browser: httpx.AsyncClient, query: str) -> None:
    assert (await browser.get(f"{KEYS}?{query}")).status_code == 200


# One key


async def test_the_page_of_a_key_shows_token_requests_issued_and_refused_and_what_to_do(
    browser: httpx.AsyncClient, http: httpx.AsyncClient, installation: Installation, auth: Auth
) -> None:
    made = credentials(await make(browser))
    page = f"{KEYS}/{made['client_id']}"
    assert "No token requests in the last 30 days" in (await browser.get(page)).text
    assert await works(http, made)
    for _ in range(2):
        assert not await works(http, made | {"client_secret": "bhs_wrong"})
    await submit(browser, page, f"{page}/rotate", grace="now")
    assert not await works(http, made)
    await auth.activity.flush(auth.db)
    shown = text_of(await browser.get(page))
    assert re.search(r"UTC token issued 1 127\.0\.0\.1", shown)
    assert re.search(r"UTC refused: wrong secret 2 127\.0\.0\.1", shown)
    assert re.search(r"UTC refused: ended secret 1 127\.0\.0\.1", shown)
    assert "Wrong secret The client id was right, the secret was not." in shown
    assert "Ended secret The secret was right once" in shown
    assert "Key revoked" not in shown


async def test_token_requests_are_fetched_from_the_page_of_the_key_and_only_when_there_are_new_ones(
    browser: httpx.AsyncClient, http: httpx.AsyncClient, auth: Auth
) -> None:
    made = credentials(await make(browser))
    page = f"{KEYS}/{made['client_id']}"
    mistaken = await submit(browser, page, f"{page}/revoke", typed_name="another")
    assert f'id="requests" data-live="5" data-from="{page}"' in mistaken.text
    asked = {"X-Fragment": "requests", "If-None-Match": mistaken.headers["etag"]}
    assert (await browser.get(page, headers=asked)).status_code == 304
    assert await works(http, made)
    await auth.activity.flush(auth.db)
    fresh = await browser.get(page, headers=asked)
    assert "token issued" in fresh.text
    assert "<html" not in fresh.text


@pytest.mark.parametrize(
    ("fields", "is_revoked", "reason", "advice"),
    [
        ({"networks": "192.0.2.0/24"}, False, "address not allowed", "add its network"),
        ({}, True, "key revoked", "Somebody still uses this key."),
    ],
)
async def test_a_refusal_says_why_and_what_to_do(
    browser: httpx.AsyncClient,
    http: httpx.AsyncClient,
    auth: Auth,
    fields: dict[str, str],
    is_revoked: bool,
    reason: str,
    advice: str,
) -> None:
    made = credentials(await make(browser, **fields))
    page = f"{KEYS}/{made['client_id']}"
    if is_revoked:
        await submit(browser, page, f"{page}/revoke", typed_name=GOOD["name"])
    assert not await works(http, made)
    await auth.activity.flush(auth.db)
    shown = text_of(await browser.get(page))
    assert f"refused: {reason} 1 127.0.0.1" in shown
    assert advice in shown


def test_every_reason_that_is_noted_has_its_words() -> None:
    assert keys.REFUSALS.keys() == set(Refused) - {Refused.UNKNOWN}  # those are of no key


async def test_a_change_is_saved_and_only_what_differs_is_noted(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    made = credentials(await make(browser))
    page = f"{KEYS}/{made['client_id']}"
    answer = await submit(browser, page, f"{page}/change", **GOOD | {"name": "weekly", "lifespan": "2", "unit": "h"})
    assert answer.headers["location"] == f"{page}?done=saved"
    assert "Saved." in (await browser.get(answer.headers["location"])).text
    key = await stored(installation, made["client_id"])
    assert (key.name, spell_lifespan(key.lifespan), key.description) == ("weekly", "2h", GOOD["description"])
    async with installation.db.reading() as tx:
        noted = {entry.action: entry.detail for entry in await read_trail(tx, subject=key.id)}
    assert noted["client.changed"]["fields"] == ["lifespan", "name"]


async def test_a_mistaken_change_leaves_the_key_and_keeps_what_was_typed(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    made = await register(installation, name="robot")
    page = page_of(made)
    answer = await submit(browser, page, f"{page}/change", **GOOD | {"name": "", "networks": "home"})
    assert answer.status_code == 400
    assert mistakes(answer).keys() == {"name", "networks"}
    assert "\nhome</textarea>" in answer.text
    assert "<details open><summary>Change the key" in answer.text
    assert await stored(installation, made.client.id) == made.client


@on_one_engine
async def test_a_form_makes_one_key_however_often_it_is_sent(browser: httpx.AsyncClient) -> None:
    typed = GOOD | {"id": unseen(await browser.get(NEW), "id")}
    made = credentials(await submit(browser, NEW, NEW, **typed))
    assert made["client_id"] == typed["id"]
    again = await submit(browser, NEW, NEW, **typed)
    assert again.headers["location"] == f"{KEYS}/{made['client_id']}?done=key-created-before"
    assert "This key was created already." in (await browser.get(again.headers["location"])).text
    assert names(await browser.get(KEYS)) == [GOOD["name"]]


@on_one_engine
@pytest.mark.parametrize("id", ["", "cli_", "prv_" + "0" * 26, "x" * 5000])
async def test_what_is_no_id_of_a_key_does_not_become_one(browser: httpx.AsyncClient, id: str) -> None:
    made = credentials(await make(browser, id=id))
    assert made["client_id"] != id


@on_one_engine
async def test_a_form_rotates_once_however_often_it_is_sent(
    browser: httpx.AsyncClient, http: httpx.AsyncClient, installation: Installation
) -> None:
    made = credentials(await make(browser))
    page = f"{KEYS}/{made['client_id']}"
    typed = {"grace": "now", "newest": unseen(await browser.get(page), "newest")}
    new = credentials(await submit(browser, page, f"{page}/rotate", **typed))
    again = await submit(browser, page, f"{page}/rotate", **typed)
    assert again.status_code == 409
    assert "it has a newer secret already" in text_of(again)
    assert await works(http, new)
    assert len((await stored(installation, made["client_id"])).secrets) == 2


# Rotating


@pytest.mark.parametrize("grace", GRACES)
async def test_rotating_gives_a_new_secret_and_ends_the_old_one_after_the_grace(
    browser: httpx.AsyncClient, http: httpx.AsyncClient, installation: Installation, grace: str
) -> None:
    old = credentials(await make(browser))
    page = f"{KEYS}/{old['client_id']}"
    shown = await submit(browser, page, f"{page}/rotate", grace=grace)
    new = credentials(shown)
    assert await works(http, new)
    assert await works(http, old) is (grace != "now")
    assert ("It no longer works" in shown.text) is (grace == "now")
    first, second = (await stored(installation, old["client_id"])).secrets
    assert first.ends_at is not None
    assert abs(first.ends_at - second.created_at - GRACES[grace]).total_seconds() < 5
    assert new["client_secret"] not in (await browser.get(page)).text


@pytest.mark.parametrize("grace", ["", "2h", "P1D"])
@on_one_engine
async def test_an_unknown_grace_rotates_nothing(
    browser: httpx.AsyncClient, installation: Installation, grace: str
) -> None:
    made = await register(installation)
    answer = await submit(browser, page_of(made), f"{page_of(made)}/rotate", grace=grace)
    assert answer.status_code == 400
    assert mistakes(answer).keys() == {"grace"}
    assert len((await stored(installation, made.client.id)).secrets) == 1


async def test_one_of_two_secrets_can_be_ended_and_the_last_one_cannot(
    browser: httpx.AsyncClient, http: httpx.AsyncClient, installation: Installation
) -> None:
    old = credentials(await make(browser))
    page = f"{KEYS}/{old['client_id']}"
    assert "End now" not in (await browser.get(page)).text
    new = credentials(await submit(browser, page, f"{page}/rotate", grace="7d"))
    first, second = (await stored(installation, old["client_id"])).secrets
    assert (await browser.get(page)).text.count("End now") == 2
    answer = await submit(browser, page, f"{page}/secrets/{first.id}/revoke")
    assert answer.headers["location"] == f"{page}?done=secret-revoked"
    assert (await works(http, old), await works(http, new)) == (False, True)
    refused = await submit(browser, page, f"{page}/secrets/{second.id}/revoke")
    assert refused.status_code == 409
    assert "this is the API key&#39;s last secret; rotate it, or revoke the API key" in refused.text
    assert (await submit(browser, page, f"{page}/secrets/{first.id}/revoke")).status_code == 404


async def test_a_key_whose_last_secret_is_about_to_end_says_so(
    browser: httpx.AsyncClient, installation: Installation
) -> None:
    made = credentials(await make(browser))
    page = f"{KEYS}/{made['client_id']}"
    await submit(browser, page, f"{page}/rotate", grace="1h")
    assert "Rotate it before then" not in (await browser.get(page)).text
    newest = (await stored(installation, made["client_id"])).secrets[-1]
    await submit(browser, page, f"{page}/secrets/{newest.id}/revoke")
    assert "Rotate it before then" in (await browser.get(page)).text


# Revoking


@pytest.mark.parametrize("typed", ["", "robot", "ROBOT  one", "robot one!"])
@on_one_engine
async def test_a_key_is_not_revoked_unless_its_name_is_typed(
    browser: httpx.AsyncClient, installation: Installation, typed: str
) -> None:
    made = await register(installation, name="robot  one")
    answer = await submit(browser, page_of(made), f"{page_of(made)}/revoke", typed_name=typed)
    assert answer.status_code == 400
    assert mistakes(answer) == {"typed_name": "is not the name of this key"}
    assert f'value="{typed}"' in answer.text
    assert (await stored(installation, made.client.id)).state is ClientState.ACTIVE


@pytest.mark.parametrize(
    ("name", "typed"),
    [("robot  one", " robot one "), ("Cafe\u0301", "Caf\u00e9"), (HOSTILE, HOSTILE)],
)
@on_one_engine
async def test_a_name_is_typed_as_it_looks(
    browser: httpx.AsyncClient, installation: Installation, name: str, typed: str
) -> None:
    made = await register(installation, name=name)
    answer = await submit(browser, page_of(made), f"{page_of(made)}/revoke", typed_name=typed)
    assert answer.headers["location"] == f"{page_of(made)}?done=revoked"


async def test_a_revoked_key_works_no_more_stays_listed_and_cannot_be_changed(
    browser: httpx.AsyncClient, http: httpx.AsyncClient
) -> None:
    made = credentials(await make(browser))
    page = f"{KEYS}/{made['client_id']}"
    await submit(browser, page, f"{page}/revoke", typed_name=GOOD["name"])
    assert not await works(http, made)
    assert "revoked" in text_of(await browser.get(KEYS))
    shown = await browser.get(page)
    assert "Revoked" in shown.text
    assert not [action for action in ACTIONS if f"{page}/{action}" in shown.text]
    for action, fields in (("change", GOOD | {"name": "x"}), ("rotate", {"grace": "now"}), ("revoke-tokens", {})):
        answer = await submit(browser, page, f"{page}/{action}", **fields)
        assert answer.status_code == 409
        assert "the API key is revoked" in answer.text


async def test_tokens_issued_so_far_can_be_ended(browser: httpx.AsyncClient, http: httpx.AsyncClient) -> None:
    made = credentials(await make(browser))
    page = f"{KEYS}/{made['client_id']}"
    token = (await http.post("/auth", json=made)).json()["data"]["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert (await http.get("/api/v1/me", headers=headers)).status_code == 200
    answer = await submit(browser, page, f"{page}/revoke-tokens")
    assert answer.headers["location"] == f"{page}?done=tokens-revoked"
    assert (await http.get("/api/v1/me", headers=headers)).status_code == 401
    assert await works(http, made)
    assert "count only if issued after" in text_of(await browser.get(page))


# Who may


async def test_a_viewer_sees_keys_and_cannot_change_them(viewer: httpx.AsyncClient, installation: Installation) -> None:
    made = await register(installation, name="robot")
    page = page_of(made)
    assert names(await viewer.get(KEYS)) == ["robot"]
    shown = await viewer.get(page)
    assert shown.status_code == 200
    assert re.findall(r'action="([^"]*)"', shown.text) == ["/console/sign-out"]
    assert (await viewer.get(NEW)).status_code == 403
    assert (await submit(viewer, KEYS, NEW, **GOOD)).status_code == 403
    for action in ACTIONS:
        fields = GOOD | {"grace": "now", "typed_name": "robot"}
        assert (await submit(viewer, page, f"{page}/{action}", **fields)).status_code == 403
    assert await stored(installation, made.client.id) == made.client


async def test_another_organizations_key_is_not_there(browser: httpx.AsyncClient, installation: Installation) -> None:
    theirs = await register(installation, organization_id=await another_organization(installation), name="theirs")
    page = page_of(theirs)
    assert names(await browser.get(KEYS)) == []
    assert "No key matches" in (await browser.get(KEYS, params={"q": theirs.client.id})).text
    assert (await browser.get(page)).status_code == 404
    for action in ACTIONS:
        fields = GOOD | {"grace": "now", "typed_name": "theirs"}
        assert (await submit(browser, KEYS, f"{page}/{action}", **fields)).status_code == 404
    assert await stored(installation, theirs.client.id) == theirs.client


@pytest.mark.parametrize("key", ["nothing", "cli_00000000000000000000000000", "%00", "%F0%9F%94%91"])
async def test_a_key_that_is_none_is_not_found(browser: httpx.AsyncClient, key: str) -> None:
    answer = await browser.get(f"{KEYS}/{key}")
    assert answer.status_code == 404
    assert "<title>There is no such API key · Billhook</title>" in answer.text


async def test_a_form_without_its_token_is_refused(browser: httpx.AsyncClient, installation: Installation) -> None:
    made = await register(installation, name="robot")
    fields = GOOD | {"grace": "now", "typed_name": "robot"}
    for action in [NEW, *(f"{page_of(made)}/{action}" for action in ACTIONS)]:
        for token in ({}, {"form_token": "0" * 64}):
            assert (await browser.post(action, data=fields | token)).status_code == 403
    assert await stored(installation, made.client.id) == made.client
    assert names(await browser.get(KEYS)) == ["robot"]


async def test_hostile_text_is_shown_as_text(browser: httpx.AsyncClient) -> None:
    made = await make(browser, name=HOSTILE, description=HOSTILE)
    page = f"{KEYS}/{copied(made, 'client-id')}"
    for shown in (made, await browser.get(KEYS), await browser.get(page)):
        assert "<script>alert" not in shown.text
        assert HOSTILE in html.unescape(shown.text)
    again = await submit(browser, page, f"{page}/change", **GOOD | {"name": HOSTILE, "networks": HOSTILE})
    assert again.status_code == 400
    assert "<script>alert" not in again.text


@on_one_engine
async def test_who_has_not_signed_in_is_sent_to_the_door(http: httpx.AsyncClient) -> None:
    answer = await http.get(KEYS)
    assert answer.headers["location"] == "/console/sign-in?next=%2Fsettings%2Fapi-keys"
