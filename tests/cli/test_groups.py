"""billhook group …"""

import pytest

from tests.cli.conftest import Billhook


def test_a_group_lives_through_all_its_commands(on_engine: Billhook) -> None:
    made = on_engine.json("group", "create", "Ops")
    assert made["id"].startswith("grp_")
    assert on_engine.json("group", "show", made["id"]) == made
    renamed = on_engine.json("group", "rename", "Ops", "Night shift")
    assert renamed == made | {"name": "Night shift"}
    assert on_engine.json("group", "show", "Night shift") == renamed
    assert on_engine.json("group", "list") == [renamed]


def test_for_people_there_is_a_line_a_group(billhook: Billhook) -> None:
    assert billhook("group", "list").out == "No groups yet.\n"
    assert billhook("group", "create", "Ops").out.startswith("Created group Ops (grp_")
    title, line = billhook("group", "list").out.splitlines()
    assert title.split() == ["GROUP", "ID", "NAME", "CREATED"]
    assert line.split()[1] == "Ops"
    assert "Ops" in billhook("group", "show", "Ops").out


def test_a_name_belongs_to_an_organization(billhook: Billhook) -> None:
    other = billhook.json("organization", "create", "Other")["id"]
    ours = billhook.json("group", "create", "Ops")
    theirs = billhook.json("group", "create", "Ops", "--organization", other)
    assert theirs["organization_id"] == other
    assert billhook.json("group", "show", "Ops")["id"] == ours["id"]
    assert billhook.json("group", "show", "Ops", "--organization", other)["id"] == theirs["id"]
    assert billhook.json("group", "show", theirs["id"])["id"] == theirs["id"]
    assert billhook("group", "show", ours["id"], "--organization", other).status == 1
    assert billhook.json("group", "list", "--organization", other) == [theirs]
    assert len(billhook.json("group", "list")) == 2


def test_a_group_may_have_a_name_like_an_id(billhook: Billhook) -> None:
    name = "grp_" + "0" * 26
    made = billhook.json("group", "create", name)
    assert billhook.json("group", "show", name) == made


REFUSED = [
    (["create", ""], "name"),
    (["create", "x" * 101], "name"),
    (["create", "a\nb"], "name"),
    (["create", "not text \udcff"], "name"),
    (["create", "Taken"], "another group has this name"),
    (["create", "x", "--organization", "org_none"], "organization org_none"),
    (["list", "--organization", "org_none"], "organization org_none"),
    (["show", "nothing"], "there is no such group"),
    (["show", "taken"], "there is no such group"),
    (["show", "not text \udcff"], "there is no such group"),
    (["show", "grp_" + "0" * 26], "there is no such group"),
    (["rename", "nothing", "x"], "there is no such group"),
    (["rename", "Taken", ""], "name"),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_is_refused_is_named_and_ends_with_1(billhook: Billhook, arguments: list[str], named: str) -> None:
    billhook.json("group", "create", "Taken")
    ran = billhook("group", *arguments)
    assert (ran.status, ran.out) == (1, "")
    assert named in ran.err
    ran = billhook("group", *arguments, "--json")
    assert ran.document.keys() == {"code", "message"}


@pytest.mark.parametrize(("arguments", "named"), [(["create"], "NAME"), (["show"], "GROUP"), (["burn"], "burn")])
def test_wrong_usage_is_named_and_ends_with_2(billhook: Billhook, arguments: list[str], named: str) -> None:
    ran = billhook("group", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert named in ran.err


def test_the_limit_of_groups_holds_here_too(billhook: Billhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_MAX_GROUPS", "1")
    billhook.json("group", "create", "Ops")
    assert "as many groups as it may have: 1" in billhook("group", "create", "More").err
