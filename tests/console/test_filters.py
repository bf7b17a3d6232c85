"""The address of a list says what is in it; what it says wrongly is told field by field."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from billhook.console.filters import CHECKS, Asked, as_input, parse_moment
from billhook.delivery.reads import Filter
from billhook.delivery.store import State
from billhook.errors import InvalidParameters
from billhook.storage.ids import new_id

NOON_MS = 1_780_315_200_000  # 2026-06-01T12:00Z


def mistakes_of(**query: str) -> dict[str, str]:
    with pytest.raises(InvalidParameters) as raised:
        Asked.of(query).filter("org", limit=51)
    return {each.field: each.message for each in raised.value.errors}


def test_what_is_left_empty_narrows_nothing() -> None:
    asked = Asked.of({"state": "", "group_id": " ", "since": "", "unknown": "x"})
    assert not asked.is_narrow
    assert asked.but() == ""
    assert asked.filter("org", limit=51) == Filter("org", limit=51)


def test_every_field_has_its_place_in_the_filter() -> None:
    ids = {name: new_id(name[:3]) for name in ("group_id", "provider_id", "notification_id")}
    query = {
        **ids,
        "state": "failed",
        "since": "2026-06-01T12:00",
        "until": "2026-06-01T13:00Z",
        "cursor": new_id("dlv"),
    }
    assert Asked.of(query).filter("org", limit=51) == Filter(
        "org",
        **ids,
        state=State.FAILED,
        since_ms=NOON_MS,
        until_ms=NOON_MS + 3_600_000,
        after=query["cursor"],
        limit=51,
    )


def test_the_next_page_is_of_the_same_list() -> None:
    asked = Asked.of({"state": "failed", "since": "2026-06-01T12:00", "cursor": "dlv_x"})
    assert asked.but() == "state=failed&since=2026-06-01T12%3A00"
    assert asked.but(cursor="dlv_y") == "state=failed&since=2026-06-01T12%3A00&cursor=dlv_y"


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = mistakes_of(state="lost", group_id="x", provider_id="'", since="yesterday", until="2026-13-01", cursor="1")
    assert found.keys() == {"state", "group_id", "provider_id", "since", "until", "cursor"}
    assert "pending, delivered, failed" in found["state"]
    assert "such as 2026-" in found["since"]


def test_a_list_cannot_end_before_it_begins() -> None:
    assert mistakes_of(since="2026-06-01T12:00", until="2026-06-01T11:00").keys() == {"until"}


@pytest.mark.parametrize(
    "text",
    ["2026-06-01T12:00", "2026-06-01T12:00:00", "2026-06-01T12:00:00.000", "2026-06-01T14:00+02:00", "20260601T1200Z"],
)
def test_a_moment_without_a_zone_is_in_utc(text: str) -> None:
    assert parse_moment("since", text) == NOON_MS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-06-01T12:00", "2026-06-01T12:00"),
        ("2026-06-01T14:00:30+02:00", "2026-06-01T12:00:30"),
        ("20260601T1200Z", "2026-06-01T12:00"),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_a_moment_is_shown_as_an_input_takes_it(text: str, shown: str) -> None:
    assert as_input(text) == shown


@given(st.dictionaries(st.sampled_from(sorted(CHECKS)), st.text()))
def test_no_text_at_all_breaks_anything(query: dict[str, str]) -> None:
    asked = Asked.of(query)
    try:
        asked.filter("org", limit=51)
    except InvalidParameters as error:
        assert {each.field for each in error.errors} <= set(CHECKS)
