"""billhook keys …"""

import pytest

from tests.cli.conftest import Billhook


def states(billhook: Billhook, *arguments: str) -> list[str]:
    return [key["state"] for key in billhook.json("keys", *arguments)]


def test_before_the_first_start_there_is_no_key(billhook: Billhook) -> None:
    assert billhook.json("keys", "list") == []
    assert billhook("keys", "list").out == "No keys yet: the first start makes one.\n"


def test_rotating_announces_the_next_key_once(on_engine: Billhook) -> None:
    assert states(on_engine, "rotate") == ["active", "next"]
    assert states(on_engine, "rotate") == ["active", "next"]
    assert states(on_engine, "list") == ["active", "next"]


def test_in_an_emergency_a_new_key_signs_and_all_others_are_dropped(on_engine: Billhook) -> None:
    before = {key["kid"] for key in on_engine.json("keys", "rotate")}
    after = {key["kid"]: key["state"] for key in on_engine.json("keys", "rotate", "--emergency")}
    assert {after[kid] for kid in before & after.keys()} <= {"dropped"}
    assert [state for kid, state in after.items() if kid not in before] == ["active"]


def test_a_key_is_shown_without_its_private_half(billhook: Billhook) -> None:
    for key in billhook.json("keys", "rotate"):
        assert key.keys() == {"kid", "state", "created_at", "active_from"}


def test_for_people_a_key_is_a_line(billhook: Billhook) -> None:
    billhook("keys", "rotate")
    title, *lines = billhook("keys", "list").out.splitlines()
    assert title.split() == ["KEY", "ID", "STATE", "SIGNS", "FROM"]
    assert [line.split()[1] for line in lines] == ["active", "next"]


def test_a_rotation_is_in_the_audit_trail(billhook: Billhook) -> None:
    billhook("keys", "rotate")
    billhook("keys", "rotate", "--emergency")
    assert {"key.announced", "key.replaced"} <= {entry["action"] for entry in billhook.json("audit")}


@pytest.mark.parametrize("arguments", [["rotate", "now"], ["rotate", "--unknown"], ["destroy"]])
def test_wrong_usage_ends_with_2(billhook: Billhook, arguments: list[str]) -> None:
    ran = billhook("keys", *arguments)
    assert (ran.status, ran.out) == (2, "")
