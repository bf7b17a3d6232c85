"""Notifications and deliveries through HTTP: sent, received byte for byte, looked at, delivered again."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import pytest
import standardwebhooks
import svix.webhooks

from billhook import __version__
from billhook.accounts.installation import Installation
from billhook.auth.context import Auth
from tests.delivery.desk import Desk
from tests.delivery.marks import nobody_delivers
from tests.delivery.receivers import Gate, in_turn, parsed, received, response
from tests.outbound.receivers import RawReceiver
from tests.support import another_organization, bearer, on_one_engine, register, token_for, until

TITLE = "Überschreitung 💸 \"quoted\" \\ 'single' &=+%#?/ <b>\u2028"
CONTENT = "Zeile eins\r\nzwei\ttab\n&=+%# 100%25 a+b 日本語 🧾 \u200f end "
OWN_HEADERS = [
    {"key": "X-Zebra", "value": "1"},
    {"key": "Authorization", "value": "Bearer abc=="},
    {"key": "x-zebra", "value": "2"},
    {"key": "X-Zebra", "value": "1"},
]
LIBRARIES = [standardwebhooks.Webhook, svix.webhooks.Webhook]


async def test_a_notification_reaches_the_receiver_by_post_byte_for_byte(desk: Desk, receiver: RawReceiver) -> None:
    group = await desk.group()
    await desk.provider(group, receiver.url("/hook?a=1&b=%2f+x"), request_headers=OWN_HEADERS)
    accepted = await desk.send(group, TITLE, CONTENT)
    assert accepted["warning"] is None
    done = await desk.settled(accepted["deliveries"][0]["id"])
    (raw,) = receiver.requests
    sent, body = parsed(raw), post_body(TITLE, CONTENT)
    expected = [
        ("Host", receiver.address),
        ("Content-Type", "application/json"),
        ("User-Agent", f"Billhook/{__version__}"),
        ("Accept-Encoding", "identity"),
        ("webhook-id", done["id"]),
        ("webhook-timestamp", sent.webhook_headers["webhook-timestamp"]),
        ("webhook-signature", sent.webhook_headers["webhook-signature"]),
        *((header["key"], header["value"]) for header in OWN_HEADERS),
        ("Content-Length", str(len(body))),
    ]
    lines = "".join(f"{name}: {value}\r\n" for name, value in expected)
    assert raw == f"POST /hook?a=1&b=%2f+x HTTP/1.1\r\n{lines}\r\n".encode() + body


def post_body(title: str, content: str) -> bytes:
    """JSON by hand: what a person would write down from the seed, with nothing escaped that need not be."""

    def text(value: str) -> str:
        for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
            value = value.replace(plain, escaped)
        return f'"{value}"'

    return f'{{"title":{text(title)},"content":{text(content)}}}'.encode()


async def test_a_notification_reaches_the_receiver_by_get_byte_for_byte(desk: Desk, receiver: RawReceiver) -> None:
    group = await desk.group()
    await desk.provider(group, receiver.url("/hook?a=1&b=%2f+x"), request_method="GET", request_headers=OWN_HEADERS)
    done = await desk.delivered(group, TITLE, CONTENT)
    (raw,) = receiver.requests
    sent = parsed(raw)
    assert (sent.method, sent.body) == ("GET", b"")
    own_query, ours = sent.query[:14], sent.query[14:]
    assert own_query == "a=1&b=%2f+x&ti"
    title, content = f"ti{ours}".removeprefix("title=").split("&content=")
    assert (percent_decoded(title), percent_decoded(content)) == (TITLE, CONTENT)
    assert not set("+ &=#?/") & set(title + content)
    assert parse_qsl(sent.query)[2:] == [("title", TITLE), ("content", CONTENT)]
    names = [name for name, _ in sent.headers]
    own = [header["key"] for header in OWN_HEADERS]
    signed = ["webhook-id", "webhook-timestamp", "webhook-signature", "webhook-signed"]
    assert names == ["Host", "User-Agent", "Accept-Encoding", *signed, *own]
    assert sent.all("webhook-id") == [done["id"]]
    assert sent.all("x-zebra") == ["1", "2", "1"]


def percent_decoded(text: str) -> str:
    first, *rest = text.split("%")
    return (first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)).decode()


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("library", LIBRARIES)
async def test_receivers_libraries_verify_what_arrives(
    desk: Desk, receiver: RawReceiver, method: str, library: type[standardwebhooks.Webhook]
) -> None:
    group = await desk.group()
    made = await desk.provider(group, receiver.url("/hook?k=v"), request_method=method)
    await desk.delivered(group, TITLE, CONTENT)
    (sent,) = received(receiver)
    verifier = library(made["signing_secret"])
    if method == "POST":
        verifier.verify(sent.signed, sent.webhook_headers)  # raises, should it not hold
        assert json.loads(sent.body) == {"title": TITLE, "content": CONTENT}
    else:  # what is signed is the query as it was sent, which is no JSON for the library to read
        at = datetime.fromtimestamp(int(sent.webhook_headers["webhook-timestamp"]), UTC)
        expected = verifier.sign(sent.webhook_headers["webhook-id"], at, sent.query)
        assert sent.webhook_headers["webhook-signature"] == expected


async def test_the_webhook_id_is_the_deliverys_and_stays_the_same_on_every_attempt(desk: Desk) -> None:
    async with RawReceiver(in_turn(response(500), response(302), response(200))) as receiver:
        group = await desk.group()
        await desk.provider(group, receiver.url())
        done = await desk.delivered(group)
        assert [sent.all("webhook-id") for sent in received(receiver)] == [[done["id"]]] * 3
        assert len({sent.body for sent in received(receiver)}) == 1
    assert [(each["number"], each["status"]) for each in done["attempt_log"]] == [(3, 200), (2, 302), (1, 500)]


async def test_each_provider_of_the_group_gets_its_own_delivery(desk: Desk, receiver: RawReceiver) -> None:
    group = await desk.group()
    ids = [(await desk.provider(group, receiver.url(f"/{name}")))["id"] for name in ("one", "two")]
    accepted = await desk.send(group)
    assert [each["provider_id"] for each in accepted["deliveries"]] == ids
    for each in accepted["deliveries"]:
        await desk.settled(each["id"])
    assert sorted((sent.target, sent.all("webhook-id")[0]) for sent in received(receiver)) == [
        ("/one", accepted["deliveries"][0]["id"]),
        ("/two", accepted["deliveries"][1]["id"]),
    ]


SCOPES = [
    ("POST", "/groups/{group}/notifications", "notifications:send"),
    ("POST", "/deliveries/{delivery}/redeliver", "notifications:send"),
    ("GET", "/notifications", "notifications:read"),
    ("GET", "/notifications/{notification}", "notifications:read"),
    ("GET", "/deliveries", "notifications:read"),
    ("GET", "/deliveries/{delivery}", "notifications:read"),
]


@nobody_delivers
async def test_every_route_wants_its_scope(
    desk: Desk, receiver: RawReceiver, installation: Installation, auth: Auth
) -> None:
    group = await desk.group()
    await desk.provider(group, receiver.url())
    accepted = await desk.send(group)
    ids = {"group": group, "notification": accepted["id"], "delivery": accepted["deliveries"][0]["id"]}
    everything = {"groups:read", "groups:write", "notifications:read", "notifications:send", "clients:read"}
    for method, path, scope in SCOPES:
        for scopes, may in ((everything - {scope}, False), ({scope}, True)):
            robot = await register(installation, scopes=tuple(sorted(scopes)))
            await auth.registry.refresh()
            with_scope = desk.of(bearer(await token_for(desk.http, robot)))
            body = {"title": "t", "content": "c"} if path.endswith("notifications") and method == "POST" else None
            answer = await with_scope.call(method, path.format_map(ids), json=body)
            assert (answer.status_code in (200, 202)) is may, (path, scopes, answer.text)
            assert may or answer.json()["code"] == "authorization/forbidden"


async def test_the_same_idempotency_key_sends_once(desk: Desk, receiver: RawReceiver) -> None:
    group = await desk.group()
    await desk.provider(group, receiver.url())
    first = await desk.send(group, key="invoice 7")
    await desk.settled(first["deliveries"][0]["id"])
    again = await desk.send(group, key="invoice 7")
    assert (again["id"], again["created_at"]) == (first["id"], first["created_at"])
    assert [each["id"] for each in again["deliveries"]] == [each["id"] for each in first["deliveries"]]
    other = await desk.send(group, key="invoice 8")
    await desk.settled(other["deliveries"][0]["id"])
    assert len(receiver.requests) == 2


@nobody_delivers
async def test_the_same_idempotency_key_for_something_else_is_a_conflict(
    desk: Desk, installation: Installation, auth: Auth
) -> None:
    group, other = await desk.group(), await desk.group("Other")
    await desk.send(group, key="k")
    for where, title, content in ((group, "Budget", "changed"), (group, "changed", "exceeded"), (other, "Budget", "x")):
        body = {"title": title, "content": content}
        answer = await desk.call("POST", f"/groups/{where}/notifications", json=body, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["code"]) == (409, "notification/conflict")
    robot = await register(installation)
    await auth.registry.refresh()
    another_client = desk.of(bearer(await token_for(desk.http, robot)))
    await another_client.send(group, content="its own", key="k")


BAD_NOTIFICATIONS: list[tuple[Any, list[str]]] = [
    ({}, ["title", "content"]),
    ({"title": "t"}, ["content"]),
    ({"title": "", "content": "c"}, ["title"]),
    ({"title": "x" * 257, "content": "c"}, ["title"]),
    ({"title": "t", "content": ""}, ["content"]),
    ({"title": "t", "content": "x" * (32 * 1024 + 1)}, ["content"]),
    ({"title": "t", "content": "ü" * (16 * 1024 + 1)}, ["content"]),
    ({"title": "t\0", "content": "c"}, ["title"]),
    ({"title": "t", "content": "\0"}, ["content"]),
    ({"title": 7, "content": "c"}, ["title"]),
    ({"title": "t", "content": ["c"]}, ["content"]),
    ({"title": None, "content": "c"}, ["title"]),
    ({"title": "", "content": ""}, ["title", "content"]),
    ({"title": "t", "content": "c", "colour": "red"}, ["colour"]),
]


@pytest.mark.parametrize(("body", "fields"), BAD_NOTIFICATIONS, ids=range(len(BAD_NOTIFICATIONS)))
@on_one_engine
@nobody_delivers
async def test_a_bad_field_of_a_notification_is_named(desk: Desk, body: Any, fields: list[str]) -> None:
    answer = await desk.call("POST", f"/groups/{await desk.group()}/notifications", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request/invalid-parameters")
    assert [error["field"] for error in answer.json()["errors"]] == fields


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tin it"])
@on_one_engine
@nobody_delivers
async def test_a_bad_idempotency_key_is_named(desk: Desk, key: str) -> None:
    sent = {"title": "t", "content": "c"}
    path = f"/groups/{await desk.group()}/notifications"
    answer = await desk.call("POST", path, json=sent, headers={"Idempotency-Key": key})
    assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (400, ["Idempotency-Key"])


async def test_the_longest_title_and_content_arrive_whole(desk: Desk, receiver: RawReceiver) -> None:
    group = await desk.group()
    await desk.provider(group, receiver.url())
    title, content = "💸" * 256, "é" * (16 * 1024)
    await desk.delivered(group, title, content)
    assert received(receiver)[0].body == post_body(title, content)


@nobody_delivers
async def test_a_notification_too_long_for_a_get_provider_is_refused_by_its_name(desk: Desk) -> None:
    group = await desk.group()
    made = await desk.provider(group, "https://receiver.example/hook", request_method="GET", name="Short one")
    answer = await desk.call("POST", f"/groups/{group}/notifications", json={"title": "t", "content": "ü" * 1400})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "content")
    assert made["id"] in answer.json()["message"] and "Short one" in answer.json()["message"]
    assert await desk.ask("GET", "/notifications") == []


async def test_a_sender_is_warned_when_nobody_will_be_told(desk: Desk, receiver: RawReceiver) -> None:
    group = await desk.group()
    assert "nobody will be told" in (await desk.send(group))["warning"]
    made = await desk.provider(group, receiver.url())
    await desk.ask("POST", f"{made['path']}/pause")
    held = await desk.send(group)
    assert "nobody will be told" in held["warning"]
    assert [each["state"] for each in held["deliveries"]] == ["held"]
    await desk.provider(group, receiver.url())
    assert (await desk.send(group))["warning"] is None


async def test_a_group_that_does_not_exist_is_not_found(desk: Desk) -> None:
    for group in ("grp_00000000000000000000000000", "nonsense", "%00"):
        answer = await desk.call("POST", f"/groups/{group}/notifications", json={"title": "t", "content": "c"})
        assert (answer.status_code, answer.json()["code"]) == (404, "group/not-found")


async def test_another_organizations_things_do_not_exist(
    desk: Desk, receiver: RawReceiver, installation: Installation, auth: Auth
) -> None:
    group = await desk.group()
    await desk.provider(group, receiver.url())
    done = await desk.delivered(group)
    robot = await register(installation, organization_id=await another_organization(installation))
    await auth.registry.refresh()
    stranger = desk.of(bearer(await token_for(desk.http, robot)))
    for method, path, code in (
        ("GET", f"/notifications/{done['notification_id']}", "notification/not-found"),
        ("GET", f"/deliveries/{done['id']}", "delivery/not-found"),
        ("POST", f"/deliveries/{done['id']}/redeliver", "delivery/not-found"),
        ("POST", f"/groups/{group}/notifications", "group/not-found"),
    ):
        answer = await stranger.call(method, path, json={"title": "t", "content": "c"} if "groups" in path else None)
        assert (answer.status_code, answer.json()["code"]) == (404, code)
    for path in ("/deliveries", "/notifications"):
        for query in ({}, {"group_id": group}):
            assert await stranger.ask("GET", path, params=query) == []
    assert len(receiver.requests) == 1


async def test_redelivering_sends_the_same_webhook_id_again(desk: Desk) -> None:
    async with RawReceiver(in_turn(*[response(500)] * 4, response(200))) as receiver:
        group = await desk.group()
        await desk.provider(group, receiver.url())
        delivery_id = (await desk.send(group))["deliveries"][0]["id"]
        await desk.settled(delivery_id, "failed")
        again = await desk.ask("POST", f"/deliveries/{delivery_id}/redeliver", status=202)
        assert (again["id"], again["state"], again["attempts"], again["error"]) == (delivery_id, "pending", 4, None)
        assert again["finished_at"] is None
        assert (await desk.settled(delivery_id))["attempts"] == 5
        await desk.ask("POST", f"/deliveries/{delivery_id}/redeliver", status=202)

        async def came_again() -> bool:
            return len(receiver.requests) == 6

        await until(came_again)
        assert {sent.all("webhook-id")[0] for sent in received(receiver)} == {delivery_id}


async def test_what_is_under_way_or_has_lost_its_provider_cannot_be_redelivered(desk: Desk) -> None:
    gate = Gate()
    async with RawReceiver(gate) as receiver:
        group = await desk.group()
        made = await desk.provider(group, receiver.url())
        delivery_id = (await desk.send(group))["deliveries"][0]["id"]

        async def is_held() -> bool:
            return gate.holding == 1

        await until(is_held)
        for release in (gate.open, None):
            answer = await desk.call("POST", f"/deliveries/{delivery_id}/redeliver")
            assert (answer.status_code, answer.json()["code"]) == (409, "delivery/conflict")
            if release is not None:
                release()
                await desk.settled(delivery_id)
                await desk.ask("DELETE", made["path"])
