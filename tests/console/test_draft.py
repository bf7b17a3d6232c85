"""What is typed into the provider form, before it is valid."""

import pytest

from billhook.console.draft import MOVED, TYPED_AGAIN, Draft, Row
from billhook.console.forms import Form
from billhook.errors import FieldError, InvalidParameters
from billhook.groups.model import LONGEST_NAME
from billhook.providers.kinds import MASK
from tests.console.sample import a_provider

STORED = [
    {"key": "X-Key", "value": "one"},
    {"key": "Authorization", "value": "two"},
    {"key": "x-key", "value": "three"},
]


def typed(*rows: Row, **fields: str) -> Draft:
    pairs = [(name, value) for name, value in fields.items()]
    for row in rows:
        pairs += [("header_key", row.key), ("header_value", row.value), ("header_kept", row.kept)]
    return Draft.typed(Form(pairs))


def test_what_is_typed_is_kept_as_it_is() -> None:
    fields = {"type": "Webhook", "name": " N ", "server_url": "htp:/x", "request_method": "PUT", "rate_limit": "many"}
    rows = (Row("X-Key", " v ", "0"), Row(), Row("", "v"))
    assert typed(*rows, **fields) == Draft(**fields, rows=rows)


def test_a_row_in_which_nothing_was_typed_does_not_count() -> None:
    draft = typed(Row(), Row("X-Key", "v"), Row(" ", "\t"))
    assert draft.fields()["request_headers"] == [{"key": "X-Key", "value": "v"}]


def test_a_mistake_of_a_header_stands_at_its_row() -> None:
    draft = typed(Row(), Row("X-Key", "v"), Row(), Row("Host", "v"))
    found = InvalidParameters(errors=[FieldError("request_headers[1].key", "no"), FieldError("name", "no")])
    assert [each.field for each in draft.at_its_rows(found).errors] == ["request_headers[3].key", "name"]


def test_rows_come_and_go_one_at_a_time() -> None:
    draft = typed(Row("A", "1"), Row("B", "2"))
    assert draft.with_row().rows == (Row("A", "1"), Row("B", "2"), Row())
    assert draft.without_row("0").rows == (Row("B", "2"),)
    assert draft.without_row("9").without_row("").without_row("x").rows == draft.rows


def test_a_stored_provider_shows_dots_for_values() -> None:
    draft = Draft.of(a_provider(request_headers=STORED, rate_limit=5))
    assert draft.rows == (Row("X-Key", MASK, "0"), Row("Authorization", MASK, "0"), Row("x-key", MASK, "1"))
    assert draft.rate_limit == "5"
    assert draft.fields()["request_headers"][2] == {"key": "x-key", "value": MASK}


@pytest.mark.parametrize("place", ["0", "2"])
def test_dots_never_come_to_stand_for_another_headers_value(place: str) -> None:
    """The rules would give the second of a name, now the first, the first one's value."""
    draft = Draft.of(a_provider(request_headers=STORED)).without_row(place)
    if place == "2":
        assert len(draft.fields()["request_headers"]) == 2
        return
    with pytest.raises(InvalidParameters) as caught:
        draft.fields()
    assert caught.value.errors == (FieldError("request_headers[1].value", MOVED),)


def test_a_copy_has_no_secrets() -> None:
    copy = Draft.of(a_provider(name="Pager", request_headers=STORED, rate_limit=5)).copied()
    assert copy.name == "Pager (copy)"
    assert [row.value for row in copy.rows] == ["", "", ""]
    assert copy.rate_limit == "5"


@pytest.mark.parametrize("value", ["", " ", MASK])
def test_a_copied_header_must_be_entered_again_or_removed(value: str) -> None:
    copy = Draft.of(a_provider(request_headers=STORED[:1])).copied()
    draft = typed(*(Row(row.key, value, row.kept) for row in copy.rows))
    with pytest.raises(InvalidParameters) as caught:
        draft.fields()
    assert caught.value.errors == (FieldError("request_headers[0].value", TYPED_AGAIN),)
    assert draft.without_row("0").fields()["request_headers"] == []
    again = typed(*(Row(row.key, "new", row.kept) for row in copy.rows))
    assert again.fields()["request_headers"] == [{"key": "X-Key", "value": "new"}]


def test_the_name_of_a_copy_is_not_too_long() -> None:
    assert len(Draft(name="n" * LONGEST_NAME).copied().name) == LONGEST_NAME


@pytest.mark.parametrize(("text", "limit"), [("", None), (" ", None), ("0", 0), (" 12 ", 12), ("x", -1), ("1.5", -1)])
def test_a_rate_limit_is_a_number_or_none(text: str, limit: int | None) -> None:
    assert Draft(rate_limit=text).spec().rate_limit == limit
    assert Draft(rate_limit=text).changes()["rate_limit"] == (limit or 0)
