"""What makes a client valid."""

from datetime import timedelta
from ipaddress import ip_network

import pytest

from billhook.auth import model
from billhook.errors import InvalidParameters


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("1m", 1), ("55m", 55), ("1h", 60), ("24h", 1440), ("60", 1), ("3300", 55), ("3600", 60), ("86400", 1440)],
)
def test_a_lifespan_is_whole_minutes_up_to_55_or_whole_hours_up_to_24(text: str, minutes: int) -> None:
    assert model.parse_lifespan(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    "text",
    ["", "0m", "56m", "60m", "90m", "0h", "25h", "1d", "1.5h", "-1h", "61", "3601", "5400", "90000", "1h ago", "²h"],
)
def test_another_lifespan_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidParameters, match="lifespan: must be 1m to 55m"):
        model.parse_lifespan(text)


@pytest.mark.parametrize("text", ["1m", "30m", "55m", "1h", "24h"])
def test_a_lifespan_is_shown_as_it_was_written(text: str) -> None:
    assert model.spell_lifespan(model.parse_lifespan(text)) == text


def test_scopes_come_out_in_the_documented_order_and_once() -> None:
    assert model.valid_scopes(["groups:read clients:read", "clients:read,groups:write"]) == (
        "clients:read",
        "groups:read",
        "groups:write",
    )


@pytest.mark.parametrize("scopes", [[], [""], ["clients:fly"], ["clients:read", "*"]])
def test_no_scope_or_an_unknown_one_is_refused(scopes: list[str]) -> None:
    with pytest.raises(InvalidParameters, match="scope: .*known are clients:read"):
        model.valid_scopes(scopes)


def test_networks_may_be_addresses_and_of_both_kinds() -> None:
    expected = (ip_network("10.0.0.0/8"), ip_network("192.0.2.1/32"), ip_network("2001:db8::/32"))
    assert model.parse_networks(["10.0.0.0/8, 192.0.2.1", "2001:db8::/32"]) == expected


@pytest.mark.parametrize("texts", [["10.0.0.1/8"], ["nowhere"], ["10.0.0.0/33"], ["10.0.0.0/8"] * 51])
def test_other_networks_are_refused_by_name(texts: list[str]) -> None:
    with pytest.raises(InvalidParameters, match="^networks: "):
        model.parse_networks(texts)


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "a\x00b", "a\x1bb", "\ud800"])
def test_a_name_has_1_to_100_characters_and_none_that_control(name: str) -> None:
    with pytest.raises(InvalidParameters, match="^name: "):
        model.valid_name(name)


def test_a_name_may_be_anything_else_and_loses_its_outer_spaces() -> None:
    assert model.valid_name("  Zürich 🔑 <script> ") == "Zürich 🔑 <script>"


@pytest.mark.parametrize(("text", "hours"), [("now", 0), ("1h", 1), ("24h", 24), ("7d", 168)])
def test_the_graces_are_four(text: str, hours: int) -> None:
    assert model.parse_grace(text) == timedelta(hours=hours)


def test_another_grace_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameters, match="grace: must be one of now, 1h, 24h, 7d"):
        model.parse_grace("2h")
