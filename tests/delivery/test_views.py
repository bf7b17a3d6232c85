"""What one sees of notifications and deliveries: lists, page by page and filtered, and each one whole."""

from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from billhook.app import App
from billhook.delivery.accept import Accepted, Queued
from billhook.delivery.store import State, attempts, deliveries
from billhook.delivery.views import accepted_json, accepted_view
from billhook.web.documents import Envelope
from tests.delivery.desk import Desk
from tests.delivery.marks import nobody_delivers, tuned
from tests.delivery.receivers import in_turn, response
from tests.delivery.support import rows_of, set_values
from tests.outbound.receivers import RawReceiver, hang_up
from tests.support import Registered, on_one_engine, until

TITLE = 'Überschreitung 💸 "quoted" &=+%#'
CONTENT = "Zeile eins\r\nzwei\ttab\n"


async def test_a_delivery_shows_all_that_its_attempts_came_to(desk: Desk) -> None:
    kept = ("X-Request-Id: r-1", "Server: test", "Content-Type: text/plain")
    told = response(500, "Set-Cookie: session=secret", "X-Other: hidden", *kept, body=b"a\0b" + b"x" * 20_000)
    async with RawReceiver(in_turn(told, response(200))) as receiver:
        group = await desk.group()
        await desk.provider(group, receiver.url())
        done = await desk.delivered(group)
        address = receiver.address.split(":")[0]
    last, first = done["attempt_log"]
    assert (first["number"], first["status"], first["error"], first["message"]) == (1, 500, None, None)
    assert first["address"].startswith(address)
    shown = {header["key"]: header["value"] for header in first["response_headers"]}
    assert shown == {
        "content-length": "20003",
        "x-request-id": "r-1",
        "server": "test",
        "content-type": "text/plain",
    }
    assert first["response_body"] == "a\ufffdb" + "x" * (16 * 1024 - 3)
    assert first["response_truncated"] and not last["response_truncated"]
    timings = first["timings"]
    assert timings["dns"] is None or timings["dns"] >= 0
    assert 0 <= timings["connect"] <= timings["first_byte"] <= timings["total"]
    assert timings["tls"] is None
    assert datetime.fromisoformat(first["at"]) < datetime.fromisoformat(first["next_attempt_at"])
    assert last["next_attempt_at"] is None
    assert (done["state"], done["attempts"], done["status"], done["error"]) == ("delivered", 2, 200, None)
    assert done["next_attempt_at"] is None
    assert datetime.fromisoformat(done["created_at"]) <= datetime.fromisoformat(done["finished_at"])


TOKENS = ("header-secret", "query-secret", "path-secret-0123456789")


@pytest.mark.parametrize(("method", "query"), [("POST", "••••"), ("GET", "••••&title=…&content=…")])
async def test_an_attempt_shows_what_was_asked_and_no_secret_is_stored(
    desk: Desk, app: App, method: str, query: str
) -> None:
    header, in_query, in_path = TOKENS
    async with RawReceiver() as receiver:
        group, url = await desk.group(), receiver.url(f"/in/{in_path}?token={in_query}&b=2")
        headers = [{"key": "Authorization", "value": f"Bearer {header}"}]
        made = await desk.provider(group, url, request_method=method, request_headers=headers)
        done = await desk.delivered(group, "Unseen", "written-once")
        await desk.ask("PATCH", made["path"], json={"server_url": receiver.url("/elsewhere")})
        base = receiver.url("/in/••••")
    (attempt,) = (await desk.delivery(done["id"]))["attempt_log"]
    assert (attempt["request"]["method"], attempt["request"]["url"]) == (method, f"{base}?{query}")
    shown = {each["key"]: each["value"] for each in attempt["request"]["headers"]}
    assert (shown["webhook-id"], shown["webhook-signature"], shown["Authorization"]) == (done["id"], "v1,••••", "••••")
    stored = repr(await rows_of(app.hub.db, attempts))
    assert "Authorization" in stored
    for secret in (*TOKENS, made["signing_secret"], "written-once"):
        assert secret not in stored


async def test_an_attempt_that_was_made_before_requests_were_kept_has_none(desk: Desk, app: App) -> None:
    async with RawReceiver() as receiver:
        group = await desk.group()
        await desk.provider(group, receiver.url())
        done = await desk.delivered(group)
    (row,) = await rows_of(app.hub.db, attempts)
    detail = orjson.loads(row.detail)
    del detail["request"]
    await set_values(app.hub.db, attempts, detail=orjson.dumps(detail).decode())
    (attempt,) = (await desk.delivery(done["id"]))["attempt_log"]
    assert (attempt["request"], attempt["status"]) == (None, 200)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [("connection_refused", "refused the connection"), ("connection_reset", "closed the connection")],
)
async def test_an_attempt_without_an_answer_has_a_word_and_a_sentence(desk: Desk, word: str, sentence: str) -> None:
    async with RawReceiver(hang_up) as receiver:
        group = await desk.group()
        url = receiver.url() if word == "connection_reset" else "http://127.0.0.1:9/"
        await desk.provider(group, url)
        accepted = await desk.send(group)
        failed = await desk.settled(accepted["deliveries"][0]["id"], "failed")
    assert (failed["error"], failed["status"], failed["attempts"]) == (word, None, 4)
    for attempt in failed["attempt_log"]:
        assert (attempt["error"], attempt["status"]) == (word, None)
        assert sentence in attempt["message"]


@tuned(retry_schedule="1h")
async def test_a_delivery_that_waits_tells_when_it_is_tried_again(desk: Desk) -> None:
    async with RawReceiver(response(500)) as receiver:
        group = await desk.group()
        await desk.provider(group, receiver.url())
        delivery_id = (await desk.send(group))["deliveries"][0]["id"]

        async def was_tried() -> bool:
            return bool((await desk.delivery(delivery_id))["attempts"] == 1)

        await until(was_tried)
    waiting = await desk.delivery(delivery_id)
    (attempt,) = waiting["attempt_log"]
    assert (waiting["state"], waiting["finished_at"]) == ("pending", None)
    pause = datetime.fromisoformat(attempt["next_attempt_at"]) - datetime.fromisoformat(attempt["at"])
    assert timedelta(hours=1) <= pause <= timedelta(hours=1.3)
    meant = datetime.fromisoformat(waiting["next_attempt_at"]) - datetime.fromisoformat(attempt["next_attempt_at"])
    assert abs(meant) < timedelta(minutes=1)


@nobody_delivers
async def test_pages_go_through_all_states_without_gaps_or_repeats(desk: Desk, app: App) -> None:
    group = await desk.group()
    await desk.provider(group, "https://receiver.example/")
    sent = [(await desk.send(group))["deliveries"][0]["id"] for _ in range(13)]
    async with app.hub.db.transaction() as tx:
        for number, delivery_id in enumerate(sent):
            state = list(State)[number * 7 % 5]
            await tx.execute(update(deliveries).where(deliveries.c.id == delivery_id).values(state=state))
    assert await pages(desk, "/deliveries", limit=3) == sent[::-1]
    for state in State:
        expected = [each for number, each in enumerate(sent) if list(State)[number * 7 % 5] == state]
        assert await pages(desk, "/deliveries", limit=2, state=state) == expected[::-1]
    listed = await desk.ask("GET", "/notifications", params={"limit": 100})
    assert await pages(desk, "/notifications", limit=4) == [each["id"] for each in listed]
    assert len(listed) == 13


async def pages(desk: Desk, path: str, **query: Any) -> list[str]:
    seen: list[str] = []
    while True:
        answer = (await desk.call("GET", path, params=query)).json()
        assert len(answer["data"]) <= query["limit"]
        seen += [each["id"] for each in answer["data"]]
        if answer["meta"]["next_cursor"] is None:
            return seen
        query["cursor"] = answer["meta"]["next_cursor"]


@nobody_delivers
async def test_lists_are_filtered_by_group_provider_notification_state_and_time(desk: Desk) -> None:
    one, other = await desk.group("One"), await desk.group("Other")
    made = [await desk.provider(group, "https://receiver.example/") for group in (one, one, other)]
    first, second, third = [await desk.send(group) for group in (one, one, other)]
    await desk.ask("POST", f"{made[0]['path']}/pause")

    async def ids(path: str = "/deliveries", **query: Any) -> set[str]:
        return {each["id"] for each in await desk.ask("GET", path, params=query)}

    def of(*sent: dict[str, Any]) -> set[str]:
        return {each["id"] for accepted in sent for each in accepted["deliveries"]}

    def at(accepted: dict[str, Any], **shift: float) -> str:
        return (datetime.fromisoformat(accepted["created_at"]) + timedelta(**shift)).isoformat()

    assert await ids(group_id=one) == of(first, second)
    assert await ids(provider_id=made[2]["id"]) == await ids(notification_id=third["id"]) == of(third)
    assert await ids(provider_id=made[2]["id"], group_id=one) == set()
    assert await ids(state="held") == await ids(provider_id=made[0]["id"]) == await ids(state="held", group_id=one)
    assert len(await ids(state="pending")) == 3
    for path, all_of_them in (
        ("/deliveries", of(first, second, third)),
        ("/notifications", {each["id"] for each in (first, second, third)}),
    ):
        assert await ids(path, since=at(first, hours=-1), until=at(third, hours=1)) == all_of_them
        assert await ids(path, since=at(third, hours=1)) == await ids(path, until=at(first, hours=-1)) == set()
        assert await ids(path, since="0001-01-01T00:00:00Z", until="9999-12-31T23:59:59Z") == all_of_them
    assert await ids("/notifications", group_id=other) == {third["id"]}


@pytest.mark.parametrize("path", ["/deliveries", "/notifications"])
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"group_id": "nonsense"}, "group_id"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "prv_" + "0" * 26}, "cursor"),
        ({"since": "2026-01-01T00:00:00"}, "since"),
        ({"until": "yesterday"}, "until"),
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
    ],
)
@on_one_engine
@nobody_delivers
async def test_a_bad_filter_is_named(desk: Desk, path: str, query: dict[str, str], field: str) -> None:
    answer = await desk.call("GET", path, params=query)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request/invalid-parameters")
    assert [error["field"] for error in answer.json()["errors"]] == [field]


CODES = {"notifications": "notification/not-found", "deliveries": "delivery/not-found"}


@nobody_delivers
async def test_a_notification_shows_what_it_said_and_its_deliveries(desk: Desk, robot: Registered) -> None:
    group = await desk.group()
    for name in ("one", "two"):
        await desk.provider(group, "https://receiver.example/", name=name)
    accepted = await desk.send(group, TITLE, CONTENT)
    seen = await desk.ask("GET", f"/notifications/{accepted['id']}")
    assert (seen["title"], seen["content"], seen["group_id"]) == (TITLE, CONTENT, group)
    assert (seen["sender"], seen["created_at"]) == (f"client:{robot.client.id}", accepted["created_at"])
    told = [(each["id"], each["provider_id"], each["state"]) for each in seen["deliveries"]]
    assert told == [(each["id"], each["provider_id"], each["state"]) for each in accepted["deliveries"]]
    for path in ("/notifications/ntf_00000000000000000000000000", "/notifications/%00", "/deliveries/%00"):
        answer = await desk.call("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (404, CODES[path.split("/")[1]])


@given(
    created_ms=st.integers(0, 4_000_000_000_000),
    states=st.lists(st.sampled_from([State.PENDING, State.HELD]), max_size=3),
    is_repeated=st.booleans(),
)
def test_an_accepted_notification_is_spelled_as_it_is_described(
    created_ms: int, states: list[State], is_repeated: bool
) -> None:
    queued = tuple(Queued(f"dlv_{number}", f"prv_{number}", state) for number, state in enumerate(states))
    accepted = Accepted("ntf_1", "grp_1", created_ms, queued, is_repeated)
    assert accepted_json(accepted).decode() == Envelope(data=accepted_view(accepted)).model_dump_json()
