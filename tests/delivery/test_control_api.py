"""Routes that touch the queue or the network: delete, pause, resume, test, recover, rotate."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
from sqlalchemy import func, select

from billhook.app import App
from billhook.delivery.store import attempts, deliveries, notifications
from billhook.providers.kinds import MASK
from tests.delivery.desk import Desk
from tests.delivery.marks import nobody_delivers, tuned
from tests.delivery.receivers import Gate, in_turn, received, response
from tests.outbound.receivers import RawReceiver
from tests.support import on_one_engine, until

SECRET_HEADERS = [{"key": "Authorization", "value": "Bearer saved"}, {"key": "X-Two", "value": "two"}]


@pytest.mark.parametrize("what", ["group", "provider"])
@nobody_delivers
async def test_deleting_cancels_what_is_queued_and_shows_it_as_cancelled(desk: Desk, what: str) -> None:
    group = await desk.group()
    first = await desk.provider(group, "https://receiver.example/1")
    second = await desk.provider(group, "https://receiver.example/2")
    sent = [await desk.send(group) for _ in range(2)]
    await desk.ask("POST", f"{second['path']}/pause")
    path = f"/groups/{group}" if what == "group" else first["path"]
    gone = await desk.ask("DELETE", path)
    assert gone == {"id": group if what == "group" else first["id"], "cancelled": 4 if what == "group" else 2}
    assert (await desk.call("GET", path)).status_code == 404
    for accepted in sent:
        of_first, of_second = [await desk.delivery(each["id"]) for each in accepted["deliveries"]]
        assert (of_first["state"], of_first["next_attempt_at"]) == ("cancelled", None)
        assert of_first["finished_at"] is not None
        assert of_second["state"] == ("cancelled" if what == "group" else "held")
    assert len(await desk.ask("GET", "/deliveries", params={"state": "cancelled"})) == gone["cancelled"]


async def test_a_provider_deleted_while_a_request_is_under_way_gets_no_other(desk: Desk) -> None:
    gate = Gate(response(500))
    async with RawReceiver(gate) as receiver:
        group = await desk.group()
        made = await desk.provider(group, receiver.url())
        delivery_id = (await desk.send(group))["deliveries"][0]["id"]
        await until(holding(gate))
        assert (await desk.ask("DELETE", made["path"]))["cancelled"] == 0
        gate.open()
        assert (await desk.settled(delivery_id, "cancelled"))["attempts"] == 1
        assert len(receiver.requests) == 1


def holding(gate: Gate) -> Any:
    async def does() -> bool:
        return gate.holding > 0

    return does


async def test_a_paused_provider_gets_nothing_until_it_is_resumed(desk: Desk, receiver: RawReceiver) -> None:
    group = await desk.group()
    made = await desk.provider(group, receiver.url())
    paused = await desk.ask("POST", f"{made['path']}/pause")
    assert (paused["state"], paused["id"]) == ("paused", made["id"])
    held = [(await desk.send(group))["deliveries"][0]["id"] for _ in range(2)]
    other = await desk.provider(await desk.group("Other"), receiver.url("/other"))
    await desk.delivered(other["group_id"])
    assert [sent.target for sent in received(receiver)] == ["/other"]
    assert {(await desk.delivery(each))["state"] for each in held} == {"held"}
    assert (await desk.ask("POST", f"{made['path']}/resume"))["state"] == "active"
    for each in held:
        await desk.settled(each)
    assert len(receiver.requests) == 3


@nobody_delivers
async def test_pausing_holds_what_was_queued_before(desk: Desk) -> None:
    group = await desk.group()
    made = await desk.provider(group, "https://receiver.example/")
    delivery_id = (await desk.send(group))["deliveries"][0]["id"]
    for action, state in (("pause", "held"), ("pause", "held"), ("resume", "pending"), ("resume", "pending")):
        await desk.ask("POST", f"{made['path']}/{action}")
        assert (await desk.delivery(delivery_id))["state"] == state


async def stored(app: App) -> list[int]:
    async with app.hub.db.reading() as tx:
        tables = (notifications, deliveries, attempts)
        return [(await tx.execute(select(func.count()).select_from(table))).scalar_one() for table in tables]


async def test_a_test_goes_the_real_way_at_once_and_is_not_stored(desk: Desk, app: App, receiver: RawReceiver) -> None:
    made = await desk.provider(await desk.group(), receiver.url("/saved"), request_headers=SECRET_HEADERS)
    tried = await desk.ask("POST", f"{made['path']}/test")
    (sent,) = received(receiver)
    assert tried["success"] is True
    attempt = tried["attempt"]
    assert (attempt["number"], attempt["status"], attempt["error"], attempt["response_body"]) == (1, 200, None, "ok")
    assert attempt["address"].startswith("127.0.0.1")
    assert 0 <= attempt["timings"]["first_byte"] <= attempt["timings"]["total"]
    assert attempt["response_headers"] == [{"key": "content-length", "value": "2"}]
    assert attempt["next_attempt_at"] is None
    assert (sent.all("webhook-test"), sent.all("authorization")) == (["true"], ["Bearer saved"])
    standardwebhooks.Webhook(made["signing_secret"]).verify(sent.body, sent.webhook_headers)
    assert await stored(app) == [0, 0, 0]
    assert (await desk.ask("GET", made["path"]))["health"]["last_success_at"] is None


async def test_a_test_of_changed_settings_keeps_what_is_masked_and_saves_nothing(
    desk: Desk, receiver: RawReceiver
) -> None:
    made = await desk.provider(await desk.group(), receiver.url("/saved"), request_headers=SECRET_HEADERS)
    before = await desk.ask("GET", made["path"])
    changed = {
        "server_url": receiver.url("/changed"),
        "request_method": "GET",
        "request_headers": [{"key": "Authorization", "value": MASK}, {"key": "X-Two", "value": "other"}],
        "title": "Try & see",
        "content": "ü",
    }
    tried = await desk.ask("POST", f"{made['path']}/test", json=changed)
    (sent,) = received(receiver)
    assert tried["success"] is True
    assert (sent.method, sent.target) == ("GET", "/changed?title=Try%20%26%20see&content=%C3%BC")
    assert (sent.all("authorization"), sent.all("x-two")) == (["Bearer saved"], ["other"])
    assert sent.all("webhook-test") == ["true"]
    assert await desk.ask("GET", made["path"]) == before


async def test_no_test_tells_another_host_what_is_stored(desk: Desk, receiver: RawReceiver) -> None:
    made = await desk.provider(await desk.group(), "https://receiver.example/", request_headers=SECRET_HEADERS)
    moved = {"server_url": receiver.url()}
    masked = moved | {"request_headers": [{"key": "X-Two", "value": "other"}, {"key": "Authorization", "value": MASK}]}
    for body, field in ((moved, "request_headers"), (masked, "request_headers[1].value")):
        for method, path in (("POST", f"{made['path']}/test"), ("PATCH", made["path"])):
            answer = await desk.call(method, path, json=body)
            assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (400, [field])
            assert "goes to another host" in answer.json()["message"]
    assert receiver.requests == []


async def test_settings_that_are_not_saved_can_be_tested(desk: Desk, app: App, receiver: RawReceiver) -> None:
    group = await desk.group()
    body = {
        "type": "Webhook",
        "server_url": receiver.url("/unsaved"),
        "request_method": "POST",
        "request_headers": SECRET_HEADERS,
    }
    tried = await desk.ask("POST", f"/groups/{group}/providers/test", json=body)
    (sent,) = received(receiver)
    assert tried["success"] is True
    assert (sent.target, sent.all("webhook-test"), sent.all("x-two")) == ("/unsaved", ["true"], ["two"])
    assert b"Test from Billhook" in sent.body
    assert await stored(app) == [0, 0, 0]
    assert await desk.ask("GET", f"/groups/{group}/providers") == []


async def test_a_test_that_fails_tells_the_whole_attempt(desk: Desk) -> None:
    async with RawReceiver(response(418, "Retry-After: 5", "Set-Cookie: a=b", body=b"short and stout")) as receiver:
        made = await desk.provider(await desk.group(), receiver.url())
        tried = await desk.ask("POST", f"{made['path']}/test")
    assert (tried["success"], tried["attempt"]["status"]) == (False, 418)
    assert tried["attempt"]["response_body"] == "short and stout"
    assert {header["key"] for header in tried["attempt"]["response_headers"]} == {"content-length", "retry-after"}


BLOCKED = ["http://127.0.0.1:9/", "http://169.254.169.254/latest", "http://[::1]/", "http://10.0.0.1:1/"]


@tuned(outbound_allow="")
async def test_a_blocked_address_is_told_in_one_constant_sentence(desk: Desk) -> None:
    group = await desk.group()
    body = {"type": "Webhook", "request_method": "POST"}
    told = []
    for url in BLOCKED:
        tried = await desk.ask("POST", f"/groups/{group}/providers/test", json=body | {"server_url": url})
        attempt = tried["attempt"]
        assert tried["success"] is False
        told.append((attempt["status"], attempt["error"], attempt["message"], attempt["response_body"]))
        assert attempt["address"] is None
    assert set(told) == {(None, "blocked_address", "The receiver's address is not allowed.", "")}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("", {"server_url": "ftp://x"}, "server_url"),
        ("", {"title": ""}, "title"),
        ("", {"content": "x" * 40_000}, "content"),
        ("", {"request_method": "GET", "content": "x" * 9000}, "content"),
        ("", {"request_headers": [{"key": "X-New", "value": MASK}]}, "request_headers[0].value"),
        ("", {"colour": "red"}, "colour"),
    ],
)
@on_one_engine
@nobody_delivers
async def test_a_bad_field_of_a_test_is_named(desk: Desk, path: str, body: Any, field: str) -> None:
    made = await desk.provider(await desk.group(), "https://receiver.example/", request_headers=SECRET_HEADERS)
    answer = await desk.call("POST", f"{made['path']}/test", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request/invalid-parameters"), answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_recovering_delivers_again_all_that_failed_since_a_moment(desk: Desk) -> None:
    async with RawReceiver(in_turn(*[response(400)] * 2, response(200))) as receiver:
        group = await desk.group()
        made = await desk.provider(group, receiver.url())
        delivery_id = (await desk.send(group))["deliveries"][0]["id"]
        await desk.settled(delivery_id)
        recover = f"{made['path']}/recover"
        since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        nothing = await desk.ask("POST", recover, status=202, json={"since": since})
        assert (nothing["recovered"], nothing["provider_id"]) == (0, made["id"])
    async with RawReceiver(in_turn(*[response(400)] * 4, response(200)), port=receiver.port) as receiver:
        failed = (await desk.send(group))["deliveries"][0]["id"]
        await desk.settled(failed, "failed")
        begun = await desk.ask("POST", recover, status=202, json={"since": since})
        assert (begun["recovered"], begun["since"] is not None) == (1, True)
        seen = await desk.ask("GET", f"{made['path']}/recoveries/{begun['id']}")
        assert (seen["id"], seen["state"], seen["recovered"]) == (begun["id"], "finished", 1)
        assert seen["finished_at"] is not None
        assert (await desk.settled(failed))["attempts"] == 5
        assert {sent.all("webhook-id")[0] for sent in received(receiver)} == {failed}
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert (await desk.ask("POST", recover, status=202, json={"since": later}))["recovered"] == 0


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
@on_one_engine
@nobody_delivers
async def test_a_recovery_may_begin_at_any_moment_that_can_be_written(desk: Desk, since: str) -> None:
    made = await desk.provider(await desk.group(), "https://receiver.example/")
    answer = await desk.call("POST", f"{made['path']}/recover", json={"since": since})
    assert answer.status_code in (202, 400), answer.text


@pytest.mark.parametrize("body", [{}, {"since": "yesterday"}, {"since": "2026-01-01T00:00:00"}, {"since": None}])
@on_one_engine
@nobody_delivers
async def test_a_recovery_without_a_moment_is_refused(desk: Desk, body: Any) -> None:
    made = await desk.provider(await desk.group(), "https://receiver.example/")
    answer = await desk.call("POST", f"{made['path']}/recover", json=body)
    assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (400, ["since"])


@nobody_delivers
async def test_a_recovery_is_found_under_its_own_provider_only(desk: Desk) -> None:
    group = await desk.group()
    made = [await desk.provider(group, "https://receiver.example/") for _ in range(2)]
    since = datetime.now(UTC).isoformat()
    begun = await desk.ask("POST", f"{made[0]['path']}/recover", status=202, json={"since": since})
    for path in (f"{made[1]['path']}/recoveries/{begun['id']}", f"{made[0]['path']}/recoveries/%00"):
        answer = await desk.call("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (404, "recovery/not-found")


async def test_after_a_rotation_both_secrets_sign(desk: Desk, receiver: RawReceiver) -> None:
    group = await desk.group()
    made = await desk.provider(group, receiver.url())
    rotated = await desk.ask("POST", f"{made['path']}/rotate-signing-secret")
    assert rotated["signing_secret"] != made["signing_secret"]
    await desk.delivered(group)
    (sent,) = received(receiver)
    assert len(sent.webhook_headers["webhook-signature"].split(" ")) == 2
    for secret in (made["signing_secret"], rotated["signing_secret"]):
        standardwebhooks.Webhook(secret).verify(sent.body, sent.webhook_headers)
    await desk.ask("POST", f"{made['path']}/rotate-signing-secret")
    await desk.delivered(group)
    last = received(receiver)[-1]
    standardwebhooks.Webhook(rotated["signing_secret"]).verify(last.body, last.webhook_headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(made["signing_secret"]).verify(last.body, last.webhook_headers)


async def test_a_receiver_that_is_gone_is_disabled_until_somebody_resumes_it(desk: Desk) -> None:
    async with RawReceiver(in_turn(response(410), response(200))) as receiver:
        group = await desk.group()
        made = await desk.provider(group, receiver.url())
        gone = (await desk.send(group))["deliveries"][0]["id"]
        assert (await desk.settled(gone, "failed"))["attempts"] == 1
        seen = await desk.ask("GET", made["path"])
        assert (seen["state"], "410" in seen["state_reason"]) == ("disabled", True)
        later = await desk.send(group)
        assert later["deliveries"][0]["state"] == "held"
        assert "nobody will be told" in later["warning"]
        resumed = await desk.ask("POST", f"{made['path']}/resume")
        assert (resumed["state"], resumed["state_reason"]) == ("active", None)
        await desk.settled(later["deliveries"][0]["id"])
        assert (await desk.delivery(gone))["state"] == "failed"
        assert len(receiver.requests) == 2


SCOPED = ["pause", "resume", "test", "recover", "rotate-signing-secret"]


@on_one_engine
@nobody_delivers
async def test_what_is_not_there_is_named(desk: Desk) -> None:
    group = await desk.group()
    absent = "prv_00000000000000000000000000"
    for action in SCOPED:
        body = {"since": datetime.now(UTC).isoformat()} if action == "recover" else None
        for path, code in (
            (f"/groups/{group}/providers/{absent}", "provider/not-found"),
            (f"/groups/{group}/providers/%00", "provider/not-found"),
            (f"/groups/grp_00000000000000000000000000/providers/{absent}", "group/not-found"),
        ):
            answer = await desk.call("POST", f"{path}/{action}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (404, code), (action, path)
