"""billhook client …"""

from typing import Any

import pytest

from tests.cli.conftest import Billhook

READ_ONLY = ("client", "create", "--name", "robot", "--scope", "groups:read")


def created(billhook: Billhook) -> dict[str, Any]:
    document: dict[str, Any] = billhook.json(*READ_ONLY)
    return document


def test_a_client_lives_through_all_its_commands(on_engine: Billhook) -> None:
    made = created(on_engine)
    client_id = made["client_id"]
    rotated = on_engine.json("client", "rotate", client_id, "--grace", "1h")
    assert rotated["client_secret"] != made["client_secret"]
    assert len(on_engine.json("client", "show", client_id)["secrets"]) == 2
    assert on_engine.json("client", "revoke-tokens", client_id)["not_before"] > 0
    assert on_engine.json("client", "revoke", client_id)["state"] == "revoked"
    assert [item["state"] for item in on_engine.json("client", "list")] == ["revoked"]


def test_a_new_client_is_shown_with_all_that_one_needs(billhook: Billhook) -> None:
    options = ("--scope", "groups:read", "--description", "Sends bills", "--lifespan", "30m", "--network", "10.0.0.0/8")
    made = billhook.json("client", "create", "--name", "robot", *options, "--scope", "notifications:send")
    assert made["client_secret"].startswith("bhs_")
    assert (made["name"], made["description"], made["lifespan"]) == ("robot", "Sends bills", "30m")
    assert (made["scope"], made["networks"]) == ("groups:read notifications:send", ["10.0.0.0/8"])


@pytest.mark.parametrize(
    "scopes",
    [
        ["--scope", "groups:read", "--scope", "groups:write"],
        ["--scope", "groups:read", "groups:write"],
        ["--scope", "groups:write groups:read"],
        ["--scope", "groups:write,groups:read"],
    ],
)
def test_scopes_can_be_written_in_every_way_people_write_them(billhook: Billhook, scopes: list[str]) -> None:
    assert billhook.json("client", "create", "--name", "robot", *scopes)["scope"] == "groups:read groups:write"


def test_for_people_the_secret_comes_with_advice(billhook: Billhook) -> None:
    ran = billhook(*READ_ONLY)
    assert ran.status == 0
    assert "client_secret  bhs_" in ran.out
    assert "cannot be shown again" in ran.out


def test_a_secret_is_shown_once(billhook: Billhook) -> None:
    made = created(billhook)
    for command in (["list"], ["show", made["client_id"]], ["revoke", made["client_id"]]):
        for format in ([], ["--json"]):
            assert made["client_secret"] not in billhook("client", *command, *format).out


def test_an_empty_list_is_a_document_too(billhook: Billhook) -> None:
    assert billhook.json("client", "list") == []
    assert billhook("client", "list").out == "No clients yet.\n"


def test_a_list_for_people_has_a_line_a_client(billhook: Billhook) -> None:
    client_id = created(billhook)["client_id"]
    title, line = billhook("client", "list").out.splitlines()
    assert title.split() == ["CLIENT", "ID", "NAME", "SCOPE", "LIFESPAN", "STATE", "LAST", "USED"]
    assert line.split() == [client_id, "robot", "groups:read", "1h", "active", "-"]


def test_rotating_ends_the_old_secret_at_once_unless_told_otherwise(billhook: Billhook) -> None:
    client_id = created(billhook)["client_id"]
    assert len(billhook.json("client", "rotate", client_id)["secrets"]) == 1


def test_one_of_two_secrets_can_be_ended(billhook: Billhook) -> None:
    client_id = created(billhook)["client_id"]
    first, second = billhook.json("client", "rotate", client_id, "--grace", "7d")["secrets"]
    left = billhook.json("client", "revoke", client_id, "--secret", first["id"])
    assert (left["state"], [secret["id"] for secret in left["secrets"]]) == ("active", [second["id"]])


def test_a_client_can_belong_to_any_organization(billhook: Billhook) -> None:
    other = billhook.json("organization", "create", "Other")["id"]
    made = billhook.json(*READ_ONLY, "--organization", other)
    assert made["organization_id"] == other
    assert [item["client_id"] for item in billhook.json("client", "list", "--organization", other)] == [
        made["client_id"]
    ]


def test_the_clients_of_an_organization_that_is_not_there_are_refused(billhook: Billhook) -> None:
    assert billhook("client", "list", "--organization", "org_none").status == 1


REFUSED = [
    (["create", "--name", "", "--scope", "groups:read"], "name"),
    (["create", "--name", "x" * 101, "--scope", "groups:read"], "name"),
    (["create", "--name", "x", "--scope", "everything"], "scope"),
    (["create", "--name", "x", "--scope", ""], "scope"),
    (["create", "--name", "x", "--scope", "groups:read", "--lifespan", "56m"], "lifespan"),
    (["create", "--name", "x", "--scope", "groups:read", "--network", "here"], "networks"),
    (["create", "--name", "x", "--scope", "groups:read", "--description", "x" * 1001], "description"),
    (["create", "--name", "x", "--scope", "groups:read", "--organization", "org_none"], "organization org_none"),
    (["create", "--name", "not text \udcff", "--scope", "groups:read"], "name"),
    (["rotate", "cli_1", "--grace", "2h"], "grace"),
    (["show", "cli_none"], "there is no such client"),
    (["rotate", "cli_none"], "there is no such client"),
    (["revoke", "cli_none"], "there is no such client"),
    (["revoke-tokens", "cli_none"], "there is no such client"),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_is_refused_is_named_and_ends_with_1(billhook: Billhook, arguments: list[str], named: str) -> None:
    ran = billhook("client", *arguments)
    assert (ran.status, ran.out) == (1, "")
    assert named in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_refusal_in_json_is_one_document(billhook: Billhook, arguments: list[str], named: str) -> None:
    ran = billhook("client", *arguments, "--json")
    assert ran.status == 1
    assert ran.document.keys() == {"code", "message"}
    assert named in ran.document["message"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["create"], "--name"),
        (["create", "--name", "x"], "--scope"),
        (["show"], "CLIENT_ID"),
        (["rotate", "cli_1", "--unknown"], "--unknown"),
        (["destroy"], "destroy"),
    ],
)
def test_wrong_usage_is_named_and_ends_with_2(billhook: Billhook, arguments: list[str], named: str) -> None:
    ran = billhook("client", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert named in ran.err


def test_a_revoked_client_can_be_revoked_again_but_not_changed(billhook: Billhook) -> None:
    client_id = created(billhook)["client_id"]
    billhook.json("client", "revoke", client_id)
    assert billhook("client", "revoke", client_id).status == 0
    ran = billhook("client", "rotate", client_id)
    assert (ran.status, ran.err) == (1, "billhook: the client is revoked\n")
