"""billhook provider …"""

from typing import Any

import pytest

from billhook.providers.kinds import MASK
from tests.cli.conftest import Billhook

URL = "https://receiver.example/hook?token=very-secret"


def added(billhook: Billhook, *options: str, group: str = "Ops") -> dict[str, Any]:
    if not billhook.json("group", "list"):
        billhook.json("group", "create", "Ops")
    arguments = ("provider", "add", group, "--type", "Webhook", "--name", "Pager", "--url", URL, "--method", "POST")
    document: dict[str, Any] = billhook.json(*arguments, *options)
    return document


def test_a_provider_lives_through_all_its_commands(on_engine: Billhook) -> None:
    made = added(on_engine, "--header", "Authorization: Bearer abc", "--header", "X-A:1", "--rate-limit", "5")
    assert (made["server_url"], made["request_method"], made["rate_limit"]) == (URL, "POST", 5)
    assert made["request_headers"] == [{"key": "Authorization", "value": MASK}, {"key": "X-A", "value": MASK}]
    view = {name: value for name, value in made.items() if name != "signing_secret"}
    assert on_engine.json("provider", "show", made["id"]) == view
    assert on_engine.json("provider", "list") == on_engine.json("provider", "list", "Ops") == [view]
    changed = on_engine.json("provider", "change", made["id"], "--method", "get", "--name", "Other")
    assert {name for name in view if view[name] != changed[name]} == {"request_method", "name", "changed_at"}
    rotated = on_engine.json("provider", "rotate-signing-secret", made["id"])
    assert rotated["signing_secret"] != made["signing_secret"]
    actions = [entry["action"] for entry in on_engine.json("audit", "--subject", made["id"])]
    assert actions == ["provider.signing-secret-rotated", "provider.changed", "provider.created"]


def test_type_and_method_need_not_be_said(billhook: Billhook) -> None:
    billhook.json("group", "create", "Ops")
    made = billhook.json("provider", "add", "Ops", "--name", "x", "--url", "https://x.example/")
    assert (made["type"], made["request_method"], made["request_headers"]) == ("Webhook", "POST", [])


def test_for_people_the_secret_comes_with_advice_and_is_shown_once(billhook: Billhook) -> None:
    billhook.json("group", "create", "Ops")
    ran = billhook("provider", "add", "Ops", "--name", "x", "--url", "https://x.example/", "--header", "K: hidden")
    assert ran.status == 0
    assert "signing_secret  whsec_" in ran.out
    assert "cannot be shown again" in ran.out
    provider_id = ran.out.split()[1]
    for command in (["list"], ["show", provider_id], ["change", provider_id, "--name", "y"]):
        for format in ([], ["--json"]):
            seen = billhook("provider", *command, *format)
            assert seen.status == 0
            assert "whsec_" not in seen.out
            assert "hidden" not in seen.out


def test_a_list_for_people_has_a_line_a_provider(billhook: Billhook) -> None:
    assert billhook("provider", "list").out == "No providers yet.\n"
    made = added(billhook)
    title, line = billhook("provider", "list").out.splitlines()
    assert title.split()[:3] == ["PROVIDER", "ID", "NAME"]
    assert line.split() == [made["id"], "Pager", made["group_id"], "Webhook", "POST", "active", "well"]


def test_headers_are_replaced_kept_by_their_mask_or_taken_away(billhook: Billhook) -> None:
    made = added(billhook, "--header", "A: 1", "--header", "B: 2")

    def keys(*options: str) -> list[str]:
        changed = billhook.json("provider", "change", made["id"], *options)
        return [header["key"] for header in changed["request_headers"]]

    assert keys("--name", "x") == ["A", "B"]
    assert keys("--header", f"B: {MASK}", "--header", "C: http://x:1/") == ["B", "C"]
    assert keys("--no-headers") == []


def test_a_rate_limit_can_be_taken_away(billhook: Billhook) -> None:
    made = added(billhook, "--rate-limit", "5")
    assert billhook.json("provider", "change", made["id"], "--rate-limit", "0")["rate_limit"] is None


def test_a_list_can_be_of_one_group_or_organization(billhook: Billhook) -> None:
    ours = added(billhook)
    other = billhook.json("organization", "create", "Other")["id"]
    billhook.json("group", "create", "Ops", "--organization", other)
    theirs = added(billhook, "--organization", other)

    def ids(*arguments: str) -> list[str]:
        return [item["id"] for item in billhook.json("provider", "list", *arguments)]

    assert ids() == [theirs["id"], ours["id"]]
    assert ids("Ops") == ids(ours["group_id"]) == [ours["id"]]
    assert ids("Ops", "--organization", other) == ids("--organization", other) == [theirs["id"]]


ADD = ["add", "Ops", "--name", "x", "--url", "https://x.example/"]
REFUSED = [
    ([*ADD[:3], "", *ADD[4:]], "name"),
    ([*ADD, "--type", "Pigeon"], "type: must be one of Webhook"),
    ([*ADD, "--method", "PUT"], "request_method"),
    ([*ADD[:-1], "ftp://very-secret/"], "server_url"),
    ([*ADD, "--header", "very-secret"], "request_headers[0]"),
    ([*ADD, "--header", "A: 1", "--header", "Host: very-secret"], "request_headers[1].key"),
    ([*ADD, "--header", "A: very-secret\n"], "request_headers[0].value"),
    ([*ADD, "--header", f"A: {MASK}"], "request_headers[0].value"),
    ([*ADD, "--rate-limit", "1001"], "rate_limit"),
    ([*ADD, "--organization", "org_none"], "organization org_none"),
    (["add", "Nothing", *ADD[2:]], "there is no such group"),
    (["list", "Nothing"], "there is no such group"),
    (["list", "--organization", "org_none"], "organization org_none"),
    (["show", "prv_none"], "there is no such provider"),
    (["change", "prv_none", "--name", "x"], "there is no such provider"),
    (["rotate-signing-secret", "prv_none"], "there is no such provider"),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=lambda value: str(value)[:80])
def test_what_is_refused_is_named_and_ends_with_1(billhook: Billhook, arguments: list[str], named: str) -> None:
    billhook.json("group", "create", "Ops")
    ran = billhook("provider", *arguments)
    assert (ran.status, ran.out) == (1, "")
    assert named in ran.err
    assert "very-secret" not in ran.err
    ran = billhook("provider", *arguments, "--json")
    assert ran.document.keys() == {"code", "message"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["add", "Ops"], "--name"),
        (["add", "Ops", "--name", "x"], "--url"),
        ([*ADD, "--rate-limit", "many"], "--rate-limit"),
        (["show"], "PROVIDER_ID"),
        (["burn"], "burn"),
    ],
)
def test_wrong_usage_is_named_and_ends_with_2(billhook: Billhook, arguments: list[str], named: str) -> None:
    ran = billhook("provider", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert named in ran.err


def test_the_limit_of_providers_holds_here_too(billhook: Billhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_MAX_PROVIDERS", "1")
    added(billhook)
    ran = billhook("provider", "add", "Ops", "--name", "x", "--url", URL)
    assert (ran.status, ran.err) == (1, "billhook: the group has as many providers as it may have: 1\n")
