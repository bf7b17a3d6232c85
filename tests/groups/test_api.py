"""/api/v1/groups and the providers in them, through HTTP."""

from datetime import datetime
from typing import Any

import httpx
import pytest

from billhook.accounts.audit import read_trail
from billhook.accounts.installation import Installation
from billhook.app import build_api, describe
from billhook.auth.context import Auth
from billhook.groups import store
from billhook.providers.kinds import MASK
from billhook.settings import Settings
from tests.support import Registered, another_organization, bearer, on_one_engine, register, token_for

Headers = dict[str, str]
GROUPS = "/api/v1/groups"
WEBHOOK: dict[str, Any] = {
    "type": "Webhook",
    "name": "Pager",
    "server_url": "https://receiver.example/hook?k=1",
    "request_method": "POST",
    "request_headers": [{"key": "Authorization", "value": "Bearer very-secret"}, {"key": "X-A", "value": "1"}],
}
MOST = 5
MASKED = [{"key": "Authorization", "value": MASK}, {"key": "X-A", "value": MASK}]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With limits that are soon reached."""
    return settings.model_copy(update={"max_groups": MOST, "max_providers": MOST})


async def make_group(http: httpx.AsyncClient, headers: Headers, name: str = "Ops") -> str:
    answer = await http.post(GROUPS, json={"name": name}, headers=headers)
    assert answer.status_code == 201, answer.text
    return f"{GROUPS}/{answer.json()['data']['id']}/providers"


async def make(http: httpx.AsyncClient, headers: Headers, providers: str, **fields: Any) -> dict[str, Any]:
    answer = await http.post(providers, json=WEBHOOK | fields, headers=headers)
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["data"])


def fields_of(answer: httpx.Response) -> list[str]:
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request/invalid-parameters"), answer.text
    return [error["field"] for error in answer.json()["errors"]]


async def test_a_group_is_created_read_renamed_and_listed(
    http: httpx.AsyncClient, headers: Headers, robot: Registered
) -> None:
    created = await http.post(GROUPS, json={"name": " Ops "}, headers=headers)
    made = created.json()["data"]
    assert created.status_code == 201
    assert made.keys() == {"id", "organization_id", "name", "created_at"}
    assert (made["name"], made["organization_id"]) == ("Ops", robot.client.organization_id)
    path = f"{GROUPS}/{made['id']}"
    assert (await http.get(path, headers=headers)).json() == {"code": "success", "data": made}
    renamed = await http.patch(path, json={"name": "Night"}, headers=headers)
    assert renamed.json()["data"] == made | {"name": "Night"}
    for nothing in ({}, {"name": None}):
        assert (await http.patch(path, json=nothing, headers=headers)).json()["data"]["name"] == "Night"
    listed = (await http.get(GROUPS, headers=headers)).json()
    assert listed == {"code": "success", "data": [made | {"name": "Night"}], "meta": {"next_cursor": None}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": 7}, "name"),
        ({"name": None}, "name"),
        ({"name": "x", "colour": "red"}, "colour"),
    ],
)
@on_one_engine
async def test_a_bad_field_of_a_group_is_named(
    http: httpx.AsyncClient, headers: Headers, body: Any, field: str
) -> None:
    assert fields_of(await http.post(GROUPS, json=body, headers=headers)) == [field]


async def test_a_name_that_is_taken_is_a_conflict(http: httpx.AsyncClient, headers: Headers) -> None:
    await make_group(http, headers)
    again = await http.post(GROUPS, json={"name": "Ops"}, headers=headers)
    assert (again.status_code, again.json()["code"]) == (409, "group/conflict")


async def test_a_limit_that_is_reached_is_a_conflict(http: httpx.AsyncClient, headers: Headers) -> None:
    providers = [await make_group(http, headers, f"group {number}") for number in range(MOST)][0]
    more = await http.post(GROUPS, json={"name": "one more"}, headers=headers)
    assert (more.status_code, more.json()["code"]) == (409, "group/conflict")
    for _ in range(MOST):
        await make(http, headers, providers)
    full = await http.post(providers, json=WEBHOOK, headers=headers)
    assert (full.status_code, full.json()["code"]) == (409, "provider/conflict")


async def test_a_new_provider_is_shown_whole_but_for_its_headers_values(
    http: httpx.AsyncClient, headers: Headers
) -> None:
    providers = await make_group(http, headers)
    made = await make(http, headers, providers, rate_limit=5)
    secret = made.pop("signing_secret")
    assert secret.startswith("whsec_")
    assert made["id"].startswith("prv_")
    assert datetime.fromisoformat(made["created_at"]) == datetime.fromisoformat(made["changed_at"])
    health = dict.fromkeys(("failing_since", "open_until", "waits_until", "last_success_at", "last_failure_at"))
    assert made == WEBHOOK | {
        "id": made["id"],
        "group_id": providers.split("/")[-2],
        "request_headers": MASKED,
        "rate_limit": 5,
        "state": "active",
        "state_reason": None,
        "health": health | {"status": "well", "failures": 0},
        "created_at": made["created_at"],
        "changed_at": made["changed_at"],
    }
    read = await http.get(f"{providers}/{made['id']}", headers=headers)
    listed = await http.get(providers, headers=headers)
    assert read.json()["data"] == made
    assert listed.json() == {"code": "success", "data": [made], "meta": {"next_cursor": None}}
    assert "very-secret" not in read.text + listed.text
    assert secret not in read.text + listed.text


async def test_headers_may_be_left_out(http: httpx.AsyncClient, headers: Headers) -> None:
    providers = await make_group(http, headers)
    body = {name: value for name, value in WEBHOOK.items() if name != "request_headers"}
    answer = await http.post(providers, json=body, headers=headers)
    assert answer.json()["data"]["request_headers"] == []


def without(name: str) -> dict[str, Any]:
    return {field: value for field, value in WEBHOOK.items() if field != name}


BAD_PROVIDERS: list[tuple[dict[str, Any], list[str]]] = [
    (without("type"), ["type"]),
    (without("name"), ["name"]),
    (without("server_url"), ["server_url"]),
    (without("request_method"), ["request_method"]),
    (WEBHOOK | {"type": "Pigeon"}, ["type"]),
    (WEBHOOK | {"type": "webhook"}, ["type"]),
    (WEBHOOK | {"name": "  "}, ["name"]),
    (WEBHOOK | {"name": "x" * 101}, ["name"]),
    (WEBHOOK | {"server_url": "ftp://x.example/"}, ["server_url"]),
    (WEBHOOK | {"server_url": 1}, ["server_url"]),
    (WEBHOOK | {"server_url": "http://127.1/"}, ["server_url"]),
    (WEBHOOK | {"server_url": "https://u:p@x.example/"}, ["server_url"]),
    (WEBHOOK | {"request_method": "PUT"}, ["request_method"]),
    (WEBHOOK | {"request_method": "post"}, ["request_method"]),
    (WEBHOOK | {"rate_limit": 1001}, ["rate_limit"]),
    (WEBHOOK | {"rate_limit": -1}, ["rate_limit"]),
    (WEBHOOK | {"rate_limit": True}, ["rate_limit"]),
    (WEBHOOK | {"rate_limit": "5"}, ["rate_limit"]),
    (WEBHOOK | {"rate_limit": 10**18}, ["rate_limit"]),
    (WEBHOOK | {"request_headers": {"X": "1"}}, ["request_headers"]),
    (WEBHOOK | {"request_headers": [{"key": "Host", "value": "x"}]}, ["request_headers[0].key"]),
    (WEBHOOK | {"request_headers": [{"key": "X", "value": "a\r\nb"}]}, ["request_headers[0].value"]),
    (WEBHOOK | {"request_headers": MASKED}, ["request_headers[0].value", "request_headers[1].value"]),
    (WEBHOOK | {"request_headers": [{"key": "X", "value": "1"}] * 21}, ["request_headers"]),
    (WEBHOOK | {"colour": "red"}, ["colour"]),
    (WEBHOOK | {"signing_secret": "whsec_mine"}, ["signing_secret"]),
    (WEBHOOK | {"name": "\t", "server_url": "x", "rate_limit": -5}, ["name", "server_url", "rate_limit"]),
]


@pytest.mark.parametrize(("body", "fields"), BAD_PROVIDERS)
@on_one_engine
async def test_every_bad_field_of_a_provider_is_named(
    http: httpx.AsyncClient, headers: Headers, body: Any, fields: list[str]
) -> None:
    providers = await make_group(http, headers)
    assert fields_of(await http.post(providers, json=body, headers=headers)) == fields


@on_one_engine
async def test_a_header_that_is_no_pair_is_named(http: httpx.AsyncClient, headers: Headers) -> None:
    providers = await make_group(http, headers)
    for wrong in ("X: 1", {"key": "X"}, {"key": "X", "value": 1}, {"key": "X", "value": "1", "extra": 1}):
        answer = await http.post(providers, json=WEBHOOK | {"request_headers": [wrong]}, headers=headers)
        assert all(field.startswith("request_headers") for field in fields_of(answer))


async def test_a_provider_is_changed_field_by_field(http: httpx.AsyncClient, headers: Headers) -> None:
    providers = await make_group(http, headers)
    made = await make(http, headers, providers, rate_limit=5)
    path, view = f"{providers}/{made['id']}", {name: made[name] for name in made if name != "signing_secret"}

    async def patch(**body: Any) -> dict[str, Any]:
        answer = await http.patch(path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        seen = answer.json()["data"]
        return {name: value for name, value in seen.items() if view[name] != value and name != "changed_at"}

    assert await patch() == {}
    assert await patch(name=None, server_url=None, request_headers=None, rate_limit=None) == {}
    assert await patch(type="Webhook", request_headers=MASKED) == {}
    assert await patch(request_method="GET") == {"request_method": "GET"}
    assert await patch(request_method="POST", rate_limit=0, name="Other") == {"rate_limit": None, "name": "Other"}
    headers_left = [{"key": "X-A", "value": MASK}]
    changed = await patch(name="Pager", rate_limit=5, request_headers=headers_left)
    assert changed == {"request_headers": headers_left}


async def test_masked_headers_keep_their_values(
    http: httpx.AsyncClient, headers: Headers, installation: Installation
) -> None:
    providers = await make_group(http, headers)
    made = await make(http, headers, providers)
    body = {"request_headers": [MASKED[1], {"key": "X-B", "value": "2"}, MASKED[0]]}
    assert (await http.patch(f"{providers}/{made['id']}", json=body, headers=headers)).status_code == 200
    async with installation.db.reading() as tx:
        row = await store.find_provider(tx, made["id"], None)
    assert row is not None
    kept = store.open_provider(installation.vault, row).config["request_headers"]
    assert [(header["key"], header["value"]) for header in kept] == [
        ("X-A", "1"),
        ("X-B", "2"),
        ("Authorization", "Bearer very-secret"),
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"type": "Pigeon"}, "type"),
        ({"name": ""}, "name"),
        ({"server_url": "x"}, "server_url"),
        ({"request_method": "PUT"}, "request_method"),
        ({"rate_limit": 1001}, "rate_limit"),
        ({"request_headers": [{"key": "X-New", "value": MASK}]}, "request_headers[0].value"),
        ({"state": "paused"}, "state"),
    ],
)
@on_one_engine
async def test_a_bad_change_is_named(http: httpx.AsyncClient, headers: Headers, body: Any, field: str) -> None:
    providers = await make_group(http, headers)
    made = await make(http, headers, providers)
    assert fields_of(await http.patch(f"{providers}/{made['id']}", json=body, headers=headers)) == [field]


async def test_a_rotated_signing_secret_is_shown_once(http: httpx.AsyncClient, headers: Headers) -> None:
    providers = await make_group(http, headers)
    made = await make(http, headers, providers)
    answer = await http.post(f"{providers}/{made['id']}/rotate-signing-secret", headers=headers)
    rotated = answer.json()["data"]
    assert answer.status_code == 200
    assert rotated["signing_secret"].startswith("whsec_")
    assert rotated["signing_secret"] != made["signing_secret"]
    assert {name for name in made if made[name] != rotated[name]} == {"signing_secret", "changed_at"}
    assert rotated["signing_secret"] not in (await http.get(f"{providers}/{made['id']}", headers=headers)).text


async def test_health_is_shown_in_moments(
    http: httpx.AsyncClient, headers: Headers, installation: Installation
) -> None:
    providers = await make_group(http, headers)
    made = await make(http, headers, providers)
    far = 4_000_000_000_000
    values = {"failures": 7, "open_until_ms": far, "waits_until_ms": 1000, "failing_since_ms": 1_700_000_000_000}
    async with installation.db.transaction() as tx:
        await store.change_provider(tx, made["id"], values | {"last_failure_ms": 1_700_000_000_500})
    health = (await http.get(f"{providers}/{made['id']}", headers=headers)).json()["data"]["health"]
    assert health == {
        "status": "open",
        "failures": 7,
        "failing_since": "2023-11-14T22:13:20Z",
        "open_until": "2096-10-02T07:06:40Z",
        "waits_until": None,
        "last_success_at": None,
        "last_failure_at": "2023-11-14T22:13:20.500000Z",
    }


async def test_lists_go_on_where_the_page_before_ended(http: httpx.AsyncClient, headers: Headers) -> None:
    providers = [await make_group(http, headers, name) for name in ("a", "b", "c", "d", "e")][0]
    for _ in range(5):
        await make(http, headers, providers)
    for path in (GROUPS, providers):
        seen: list[str] = []
        query: dict[str, Any] = {"limit": 2}
        while True:
            page = (await http.get(path, params=query, headers=headers)).json()
            seen += [item["id"] for item in page["data"]]
            if page["meta"]["next_cursor"] is None:
                break
            query["cursor"] = page["meta"]["next_cursor"]
        assert (len(seen), seen) == (5, sorted(set(seen), reverse=True))


OF_ANOTHER_KIND = "cursor=dlv_" + "0" * 26


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "cursor=x", "cursor=%00", OF_ANOTHER_KIND])
@on_one_engine
async def test_a_query_that_cannot_be_is_named(http: httpx.AsyncClient, headers: Headers, query: str) -> None:
    for path in (GROUPS, await make_group(http, headers)):
        assert fields_of(await http.get(f"{path}?{query}", headers=headers)) == [query.partition("=")[0]]


@pytest.mark.parametrize("wrong", ["%00", "x", "%F0%9F%94%91", "grp_" + "0" * 26])
async def test_what_is_not_there_is_absent(http: httpx.AsyncClient, headers: Headers, wrong: str) -> None:
    providers = await make_group(http, headers)
    made = await make(http, headers, providers)

    async def code(method: str, path: str, **content: Any) -> tuple[int, str]:
        answer = await http.request(method, path, headers=headers, **content)
        return answer.status_code, answer.json()["code"]

    no_group, no_provider = (404, "group/not-found"), (404, "provider/not-found")
    for path in (f"{GROUPS}/{wrong}", f"{GROUPS}/{wrong}/providers", f"{GROUPS}/{wrong}/providers/{made['id']}"):
        assert await code("GET", path) == no_group
    assert await code("PATCH", f"{GROUPS}/{wrong}", json={"name": "x"}) == no_group
    assert await code("POST", f"{GROUPS}/{wrong}/providers", json=WEBHOOK) == no_group
    assert await code("GET", f"{providers}/{wrong}") == no_provider
    assert await code("PATCH", f"{providers}/{wrong}", json={"name": "x"}) == no_provider
    assert await code("POST", f"{providers}/{wrong}/rotate-signing-secret") == no_provider


async def test_to_another_organization_nothing_of_ours_exists(
    http: httpx.AsyncClient, headers: Headers, installation: Installation, auth: Auth
) -> None:
    providers = await make_group(http, headers)
    made = await make(http, headers, providers)
    stranger = await register(installation, organization_id=await another_organization(installation))
    await auth.registry.refresh()
    theirs = bearer(await token_for(http, stranger))
    assert (await http.get(GROUPS, headers=theirs)).json()["data"] == []
    await make_group(http, theirs, "Ops")
    for method, path, body in [
        ("GET", providers, None),
        ("POST", providers, WEBHOOK),
        ("GET", f"{providers}/{made['id']}", None),
        ("PATCH", f"{providers}/{made['id']}", {"name": "mine"}),
        ("POST", f"{providers}/{made['id']}/rotate-signing-secret", None),
    ]:
        answer = await http.request(method, path, json=body, headers=theirs)
        assert (answer.status_code, answer.json()["code"]) == (404, "group/not-found")


@on_one_engine
async def test_reading_and_writing_have_scopes_of_their_own(
    http: httpx.AsyncClient, headers: Headers, installation: Installation, auth: Auth
) -> None:
    providers = await make_group(http, headers)
    reader = await register(installation, scopes=("groups:read",))
    other = await register(installation, scopes=("notifications:send", "clients:write"))
    await auth.registry.refresh()
    reading, none = [bearer(await token_for(http, one)) for one in (reader, other)]
    assert (await http.get(providers, headers=reading)).status_code == 200
    assert (await http.get(providers, headers=none)).status_code == 403
    assert (await http.get(providers)).status_code == 401
    assert (await http.post(GROUPS, json={"name": "x"}, headers=reading)).status_code == 403
    assert (await http.post(providers, json=WEBHOOK, headers=reading)).status_code == 403


async def test_the_audit_trail_names_the_client_that_called(
    http: httpx.AsyncClient, headers: Headers, robot: Registered, installation: Installation
) -> None:
    made = await make(http, headers, await make_group(http, headers))
    async with installation.db.reading() as tx:
        (entry,) = await read_trail(tx, subject=made["id"])
    assert (entry.actor, entry.action) == (f"client:{robot.client.id}", "provider.created")


def test_the_document_shows_the_fields_of_the_type() -> None:
    document = describe(build_api(), "")
    schemas = document["components"]["schemas"]
    new = schemas["NewWebhookProvider"]
    assert sorted(new["required"]) == ["name", "request_method", "server_url", "type"]
    assert new["additionalProperties"] is False
    assert new["properties"]["type"]["const"] == "Webhook"
    assert new["properties"]["request_method"]["enum"] == ["GET", "POST"]
    assert {"server_url", "health", "state"} <= schemas["WebhookProviderView"]["properties"].keys()
    assert "required" not in schemas["ProviderChanges"]
    path = document["paths"]["/api/v1/groups/{group_id}/providers"]["post"]
    assert path["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/NewWebhookProvider")
