"""Ids name their kind, sort by time, and do not repeat."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.storage.ids import ALPHABET, LENGTH, new_id

MILLISECONDS = st.integers(min_value=0, max_value=2**48 - 1)


def id_at(milliseconds: int) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: milliseconds * 1_000_000)
        return new_id("cli")


def test_an_id_is_its_prefix_and_26_plain_characters() -> None:
    prefix, _, rest = new_id("cli").partition("_")
    assert prefix == "cli"
    assert len(rest) == LENGTH
    assert set(rest) <= set(ALPHABET)


@given(earlier=MILLISECONDS, later=MILLISECONDS)
def test_ids_sort_by_the_moment_they_were_made(earlier: int, later: int) -> None:
    if earlier < later:
        assert id_at(earlier) < id_at(later)


def test_ids_of_one_moment_differ() -> None:
    assert len({id_at(1) for _ in range(1000)}) == 1000
