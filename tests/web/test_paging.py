"""Cursors lead on in the list that they came from, and in no other."""

from dataclasses import dataclass

import pytest

from billhook.errors import InvalidParameters
from billhook.web.paging import meta_of, valid_cursor

OWN, OTHER = ("dlv_" + "0" * 26, "prv_" + "0" * 26)


@dataclass
class Item:
    id: str


def test_a_cursor_is_an_id_of_the_kind_that_is_listed() -> None:
    assert (valid_cursor(OWN, "dlv"), valid_cursor(None, "dlv")) == (OWN, None)


@pytest.mark.parametrize("cursor", ["", "x", "dlv_", OTHER, OWN + "0", "dlv_" + "\0" * 26])
def test_anything_else_is_named(cursor: str) -> None:
    with pytest.raises(InvalidParameters) as refused:
        valid_cursor(cursor, "dlv")
    assert [error.field for error in refused.value.errors] == ["cursor"]


@pytest.mark.parametrize(("found", "following"), [("", None), ("ab", None), ("abc", "b")])
def test_a_page_is_followed_by_another_when_more_was_found(found: str, following: str | None) -> None:
    assert meta_of([Item(each) for each in found], 2).next_cursor == following
