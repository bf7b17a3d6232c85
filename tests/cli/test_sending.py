"""billhook send, deliveries and redeliver, and what steers the queue: group delete, provider delete, pause … recover"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from uvicorn import Config, Server

from billhook.cli.receive import receiver
from billhook.web.server import listen
from tests.cli.conftest import Billhook
from tests.scenarios.processes import billhook_in, until

ABSENT = "00000000000000000000000000"
RECEIVER = "https://receiver.example/hook"


def furnished(billhook: Billhook, url: str = RECEIVER, *options: str) -> dict[str, Any]:
    """A group, and its one provider."""
    group = billhook.json("group", "create", "Ops")["id"]
    made = billhook.json("provider", "add", "Ops", "--name", "Pager", "--url", url, *options)
    return {"group": group, "provider": made["id"], "secret": made["signing_secret"]}


def sent(billhook: Billhook, *options: str) -> dict[str, Any]:
    document: dict[str, Any] = billhook.json("send", "Ops", "--title", "Budget", "--content", "exceeded", *options)
    return document


def state_of(billhook: Billhook, delivery_id: str) -> str:
    return str(billhook.json("deliveries", delivery_id)["state"])


@contextmanager
def receiving(status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A receiver beside the commands, its address, and what it has seen."""
    seen: list[dict[str, Any]] = []
    listener = listen("127.0.0.1", 0)
    server = Server(Config(receiver(seen.append, secret=None, status=status), lifespan="off", log_config=None))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook", seen
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def test_what_is_sent_is_queued_for_every_provider_of_the_group(on_engine: Billhook) -> None:
    made = furnished(on_engine)
    accepted = sent(on_engine)
    assert accepted.keys() == {"id", "group_id", "created_at", "deliveries", "warning"}
    (queued,) = accepted["deliveries"]
    assert (queued["provider_id"], queued["state"]) == (made["provider"], "pending")
    by_id = on_engine.json("send", made["group"], "--title", "t", "--content", "c")
    listed = on_engine.json("deliveries")
    assert [each["id"] for each in listed] == [by_id["deliveries"][0]["id"], queued["id"]]
    assert on_engine.json("deliveries", queued["id"]) == listed[1] | {"attempt_log": []}


def test_for_people_a_send_names_the_deliveries(billhook: Billhook) -> None:
    furnished(billhook)
    ran = billhook("send", "Ops", "--title", "t", "--content", "c")
    assert ran.status == 0
    assert ran.out.startswith("Accepted notification ntf_")
    assert "dlv_" in ran.out and "pending" in ran.out


def test_a_sender_is_warned_when_nobody_will_be_told(billhook: Billhook) -> None:
    billhook.json("group", "create", "Ops")
    assert "nobody will be told" in sent(billhook)["warning"]
    assert "nobody will be told" in billhook("send", "Ops", "--title", "t", "--content", "c").out


def test_a_send_with_an_idempotency_key_is_done_once(billhook: Billhook) -> None:
    furnished(billhook)
    first, again = sent(billhook, "--idempotency-key", "k"), sent(billhook, "--idempotency-key", "k")
    assert first["id"] == again["id"]
    other = billhook("send", "Ops", "--title", "other", "--content", "c", "--idempotency-key", "k")
    assert (other.status, "Idempotency-Key" in other.err) == (1, True)
    assert len(billhook.json("deliveries")) == 1


REFUSED = [
    (["send", "Ops", "--title", "", "--content", "c"], "title"),
    (["send", "Ops", "--title", "x" * 257, "--content", "c"], "title"),
    (["send", "Ops", "--title", "t", "--content", ""], "content"),
    (["send", "Ops", "--title", "t", "--content", "not text \udcff"], "content"),
    (["send", "Ops", "--title", "t", "--content", "c", "--idempotency-key", ""], "Idempotency-Key"),
    (["send", "Nowhere", "--title", "t", "--content", "c"], "there is no such group"),
    (["deliveries", f"dlv_{ABSENT}"], "there is no such delivery"),
    (["deliveries", "nonsense"], "there is no such delivery"),
    (["deliveries", "--group", "Nowhere"], "there is no such group"),
    (["deliveries", "--organization", "org_none"], "org_none"),
    (["redeliver", f"dlv_{ABSENT}"], "there is no such delivery"),
    (["redeliver", "nonsense"], "there is no such delivery"),
    (["group", "delete", "Nowhere"], "there is no such group"),
    *((["provider", action, f"prv_{ABSENT}"], "there is no such provider") for action in ("delete", "pause", "resume")),
    (["provider", "test", f"prv_{ABSENT}"], "there is no such provider"),
    (["provider", "recover", f"prv_{ABSENT}", "--since", "2026-11-15T08:00:00"], "there is no such provider"),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_is_refused_is_named_and_ends_with_1(billhook: Billhook, arguments: list[str], named: str) -> None:
    billhook.json("group", "create", "Ops")
    ran = billhook(*arguments)
    assert (ran.status, ran.out) == (1, "")
    assert named in ran.err
    assert ran.err.count("\n") == 1
    assert billhook(*arguments, "--json").document.keys() == {"code", "message"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["send", "Ops", "--title", "t"],
        ["deliveries", "--state", "lost"],
        ["deliveries", "--limit", "0"],
        ["deliveries", "--since", "yesterday"],
        ["provider", "recover", f"prv_{ABSENT}"],
        ["redeliver"],
    ],
)
def test_wrong_usage_ends_with_2(billhook: Billhook, arguments: list[str]) -> None:
    ran = billhook(*arguments)
    assert (ran.status, ran.out) == (2, "")


def test_deliveries_are_filtered(billhook: Billhook) -> None:
    made = furnished(billhook)
    first = sent(billhook)["deliveries"][0]["id"]
    billhook.json("provider", "pause", made["provider"])
    second = sent(billhook)["deliveries"][0]["id"]
    billhook.json("provider", "add", "Ops", "--name", "Other", "--url", RECEIVER)
    third = sent(billhook)["deliveries"]

    def ids(*options: str) -> set[str]:
        return {each["id"] for each in billhook.json("deliveries", *options)}

    everything = {first, second, *(each["id"] for each in third)}
    assert ids() == ids("--group", "Ops") == ids("--since", "2000-01-01") == everything
    assert ids("--provider", made["provider"]) == ids("--state", "held")
    assert len(ids("--state", "held")) == 3
    assert ids("--state", "pending") == everything - ids("--state", "held")
    assert ids("--since", "2999-01-01") == ids("--provider", f"prv_{ABSENT}") == set()
    assert len(ids("--limit", "2")) == 2
    organization = billhook.json("deliveries")[0]["organization_id"]
    assert ids("--organization", organization) == everything


def test_a_list_for_people_has_a_line_a_delivery(billhook: Billhook) -> None:
    assert billhook("deliveries").out == "No deliveries.\n"
    assert billhook.json("deliveries") == []
    made = furnished(billhook)
    delivery_id = sent(billhook)["deliveries"][0]["id"]
    title, line = billhook("deliveries").out.splitlines()
    assert title.startswith("DELIVERY ID") and "NEXT ATTEMPT" in title
    assert line.split()[:5] == [delivery_id, "pending", "0", "-", made["provider"]]
    assert "state" in billhook("deliveries", delivery_id).out


def test_a_provider_is_paused_and_resumed(on_engine: Billhook) -> None:
    made = furnished(on_engine)
    delivery_id = sent(on_engine)["deliveries"][0]["id"]
    assert on_engine.json("provider", "pause", made["provider"])["state"] == "paused"
    assert state_of(on_engine, delivery_id) == "held"
    assert on_engine.json("provider", "resume", made["provider"])["state"] == "active"
    assert state_of(on_engine, delivery_id) == "pending"
    assert on_engine("provider", "pause", made["provider"]).status == 0


@pytest.mark.parametrize("what", ["group", "provider"])
def test_deleting_cancels_what_is_queued(on_engine: Billhook, what: str) -> None:
    made = furnished(on_engine)
    delivery_id = sent(on_engine)["deliveries"][0]["id"]
    gone = on_engine.json(what, "delete", made[what])
    assert gone == {"id": made[what], "cancelled": 1}
    assert state_of(on_engine, delivery_id) == "cancelled"
    assert on_engine(what, "show", made[what]).status == 1
    again = on_engine("redeliver", delivery_id)
    assert (again.status, "is deleted" in again.err) == (1, True)


def test_for_people_deleting_tells_what_was_cancelled(billhook: Billhook) -> None:
    made = furnished(billhook)
    sent(billhook)
    assert "1 queued deliveries are cancelled" in billhook("provider", "delete", made["provider"]).out
    assert "0 queued deliveries are cancelled" in billhook("group", "delete", "Ops").out


@pytest.mark.parametrize(("status", "exit_status"), [(200, 0), (500, 1)])
def test_a_test_tells_all_that_came_of_it(
    on_engine: Billhook, monkeypatch: pytest.MonkeyPatch, status: int, exit_status: int
) -> None:
    monkeypatch.setenv("BILLHOOK_OUTBOUND_ALLOW", "127.0.0.0/8")
    with receiving(status) as (url, seen):
        made = furnished(on_engine, url, "--header", "X-Key: very-secret")
        ran = on_engine("provider", "test", made["provider"], "--title", "Try", "--json")
        told = on_engine("provider", "test", made["provider"])
    assert ran.status == told.status == exit_status
    assert ran.document["success"] is (status == 200)
    assert (ran.document["attempt"]["status"], ran.document["attempt"]["response_body"]) == (status, "received\n")
    assert (seen[0]["title"], header(seen[0], "webhook-test"), header(seen[0], "x-key")) == (
        "Try",
        "true",
        "very-secret",
    )
    assert "very-secret" not in ran.out + told.out + told.err
    assert str(status) in told.out
    assert on_engine.json("deliveries") == []


def header(seen: dict[str, Any], name: str) -> str:
    (value,) = [each["value"] for each in seen["headers"] if each["key"] == name]
    return str(value)


def test_a_test_of_an_address_that_is_not_allowed_says_so(billhook: Billhook) -> None:
    made = furnished(billhook, "http://127.0.0.1:9/")
    ran = billhook("provider", "test", made["provider"], "--json")
    assert (ran.status, ran.document["attempt"]["error"]) == (1, "blocked_address")


def failed(data_dir: Path) -> None:
    """As after the last attempt of each delivery."""
    with closing(sqlite3.connect(data_dir / "billhook.db", isolation_level=None)) as db:
        db.execute("UPDATE deliveries SET state = 'failed', finished_ms = created_ms, status = 500, charged = 13")


def test_redelivering_queues_again(billhook: Billhook, data_dir: Path) -> None:
    furnished(billhook)
    delivery_id = sent(billhook)["deliveries"][0]["id"]
    failed(data_dir)
    again = billhook.json("redeliver", delivery_id)
    assert (again["id"], again["state"], again["status"]) == (delivery_id, "pending", None)
    assert billhook("redeliver", delivery_id).out == f"{delivery_id} is queued again.\n"


def test_recovering_queues_all_that_failed_since_a_moment(billhook: Billhook, data_dir: Path) -> None:
    made = furnished(billhook)
    ids = [sent(billhook)["deliveries"][0]["id"] for _ in range(3)]
    failed(data_dir)
    recover = ("provider", "recover", made["provider"], "--since")
    assert billhook.json(*recover, "2999-01-01T00:00:00")["recovered"] == 0
    begun = billhook.json(*recover, "2020-01-01T00:00:00")
    assert (begun["recovered"], begun["state"], begun["provider_id"]) == (3, "finished", made["provider"])
    assert {state_of(billhook, each) for each in ids} == {"pending"}
    assert billhook(*recover, "2020-01-01").status == 0


def test_following_shows_each_change_as_it_happens(tmp_path: Path) -> None:
    """In processes of its own: it ends with Ctrl-C, and not before."""
    with billhook_in(tmp_path) as program, receiving() as (url, seen):
        program.json("group", "create", "Ops")
        program.json("provider", "add", "Ops", "--name", "Pager", "--url", url)
        program.serve(BILLHOOK_OUTBOUND_ALLOW="127.0.0.0/8")
        following = program.start("deliveries", "--follow", "--json")
        for number in (1, 2):
            program.json("send", "Ops", "--title", f"Number {number}", "--content", "c")
            until(lambda number=number: delivered(following.stdout) == number, what="the change is shown")  # type: ignore[misc]
        following.process.send_signal(2)
        assert following.wait() in (0, 130)
        assert "Traceback" not in following.stderr
    assert [each["title"] for each in seen] == ["Number 1", "Number 2"]


def delivered(shown: str) -> int:
    lines = [json.loads(line) for line in shown.splitlines()]
    return sum(line["state"] == "delivered" for line in lines)


def test_following_shows_every_one_of_a_burst(tmp_path: Path) -> None:
    with billhook_in(tmp_path) as program:
        program.json("group", "create", "Ops")
        program.json("provider", "add", "Ops", "--name", "Pager", "--url", RECEIVER)
        first = program.json("send", "Ops", "--title", "t", "--content", "c")["deliveries"][0]["id"]
        following = program.start("deliveries", "--follow", "--json")
        until(lambda: first in following.stdout, what="the first is shown")
        copied_120_times(program.database_file)
        until(lambda: len(following.stdout.splitlines()) >= 121, what="all are shown", seconds=20)


def copied_120_times(database: Path) -> None:
    """At once, as a busy sender's."""
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        names = [row[1] for row in db.execute("PRAGMA table_info(deliveries)") if row[1] != "id"]
        columns = ", ".join(names)
        db.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120) "  # noqa: S608
            f"INSERT INTO deliveries (id, {columns}) SELECT substr(id, 1, 27) || printf('%03d', i), {columns} "
            "FROM deliveries, n"
        )
