"""Ids name their kind, sort by time, and do not repeat."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.storage import ids
from billhook.storage.ids import ALPHABET, LENGTH, first_id, is_id, new_id

MILLISECONDS = st.integers(min_value=0, max_value=2**48 - 1)


def ids_at(milliseconds: int, count: int) -> list[str]:
    """As a process makes them that has made none before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "_latest", 0)
        patch.setattr(time, "time_ns", lambda: milliseconds * 1_000_000)
        return [new_id("cli") for _ in range(count)]


def id_at(milliseconds: int) -> str:
    return ids_at(milliseconds, 1)[0]


def test_an_id_is_its_prefix_and_26_plain_characters() -> None:
    prefix, _, rest = new_id("cli").partition("_")
    assert prefix == "cli"
    assert len(rest) == LENGTH
    assert set(rest) <= set(ALPHABET)


@given(earlier=MILLISECONDS, later=MILLISECONDS)
def test_ids_sort_by_the_moment_they_were_made(earlier: int, later: int) -> None:
    if earlier < later:
        assert id_at(earlier) < id_at(later)


def test_ids_of_one_moment_differ_and_keep_their_order() -> None:
    made = ids_at(1, 1000)
    assert made == sorted(set(made))


@given(milliseconds=MILLISECONDS)
def test_the_first_id_of_a_moment_is_an_id(milliseconds: int) -> None:
    first = first_id("dlv", milliseconds)
    assert is_id(first)
    assert first.startswith("dlv_")
    assert set(first.removeprefix("dlv_")) <= set(ALPHABET)


@given(made=MILLISECONDS, moment=MILLISECONDS)
def test_an_id_sorts_before_the_first_of_a_moment_when_it_was_made_before(made: int, moment: int) -> None:
    assert (id_at(made) < first_id("cli", moment)) == (made < moment)


@given(earlier=MILLISECONDS, later=MILLISECONDS)
def test_first_ids_sort_by_their_moments(earlier: int, later: int) -> None:
    assert (first_id("dlv", earlier) < first_id("dlv", later)) == (earlier < later)


@given(before=st.integers(max_value=0))
def test_what_was_made_before_1970_was_made_before_everything(before: int) -> None:
    assert first_id("dlv", before) == "dlv_" + ALPHABET[0] * LENGTH


@pytest.mark.parametrize(
    "text", ["", "dlv", "dlv_", "dlv_" + "0" * 25, "DLV_" + "0" * 26, "dlv_" + "0" * 26 + "\n", "\0"]
)
def test_what_cannot_be_an_id_is_told_apart(text: str) -> None:
    assert not is_id(text)
    assert is_id(new_id("dlv"))


def test_what_is_random_in_them_is_drawn_once() -> None:
    drawn = [ids._random_bits() for _ in range(1000)]
    assert len(set(drawn)) == 1000
    assert max(drawn) < 2**ids.RANDOM_BITS
    assert max(drawn) >= 2 ** (ids.RANDOM_BITS - 1), "all bits are in use"
