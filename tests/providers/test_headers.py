"""Request headers: which may be chosen, and how masked values come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.errors import InvalidParameters
from billhook.providers.headers import (
    LARGEST_SUM,
    LONGEST_KEY,
    LONGEST_VALUE,
    MOST_HEADERS,
    RESERVED,
    masked,
    valid_headers,
)
from billhook.providers.kinds import MASK

Pairs = list[tuple[str, str]]


def spelled(pairs: Pairs) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in pairs]


def problems(pairs: Pairs, kept: Pairs | None = None) -> list[tuple[str, str]]:
    with pytest.raises(InvalidParameters) as refused:
        valid_headers(spelled(pairs), spelled(kept or []))
    return [(error.field, error.message) for error in refused.value.errors]


VALID: list[Pairs] = [
    [],
    [("Authorization", "Bearer abc.def")],
    [("X-A", "1"), ("x-a", "2"), ("X-A", "1")],
    [("!#$%&'*+-.^_`|~09azAZ", "any visible: ASCII; \t too")],
    [("X-Empty", "")],
    [("K" * LONGEST_KEY, "v" * LONGEST_VALUE)],
    [(f"X-{number}", "v") for number in range(MOST_HEADERS)],
    [("a" * 64, "v" * 4032), ("b" * 64, "w" * 4032)],
]


@pytest.mark.parametrize("pairs", VALID)
def test_valid_headers_stay_in_their_order(pairs: Pairs) -> None:
    assert valid_headers(spelled(pairs), ()) == spelled(pairs)


def test_the_spaces_around_are_taken_off() -> None:
    assert valid_headers(spelled([(" X-A\t", "\t v w ")]), ()) == spelled([("X-A", "v w")])


WRONG_KEYS = ["", " ", "a b", "a:b", "a\r\nb", "ü", "a\x00", "(a)", "a/b", ":authority", "K" * (LONGEST_KEY + 1)]


@pytest.mark.parametrize("key", WRONG_KEYS)
def test_a_key_that_is_no_header_name_is_named_by_its_place(key: str) -> None:
    assert [field for field, _ in problems([("X-Good", "v"), (key, "v")])] == ["request_headers[1].key"]


WRONG_VALUES = ["a\r\nX-Evil: 1", "\r", "a\n", "\x00", "a\x0bb", "\x7f", "ü", "€", "\x85", "\ud800", "v" * 4097]


@pytest.mark.parametrize("value", WRONG_VALUES)
def test_a_value_that_http_does_not_carry_safely_is_named_by_its_place(value: str) -> None:
    (problem,) = problems([("X-Good", "v"), ("X-Bad", value)])
    assert problem[0] == "request_headers[1].value"
    assert value not in problem[1]


CHOSEN_BY_US = [*RESERVED, "webhook-id", "webhook-signature", "Webhook-Anything", "Proxy-Authorization"]
CHOSEN_BY_US += ["x-forwarded-for", "X-Forwarded-Anything", "CONTENT-TYPE", "Host", "User-Agent"]


@pytest.mark.parametrize("key", CHOSEN_BY_US)
def test_what_is_ours_or_the_connections_cannot_be_chosen(key: str) -> None:
    ((field, message),) = problems([(key, "x")])
    assert field == "request_headers[0].key"
    assert message.startswith((f"{key} is set by Billhook", f"{key} belongs to the connection"))


def test_these_names_are_reserved() -> None:
    ours = {"content-length", "content-type", "content-encoding", "accept-encoding", "date", "user-agent"}
    connection = {"host", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect"}
    assert RESERVED.keys() == ours | connection | {"forwarded", "via", "x-real-ip", "cookie"}


def test_there_are_bounds_on_all_together() -> None:
    assert problems([(f"X-{number}", "v") for number in range(MOST_HEADERS + 1)])[0][0] == "request_headers"
    full = [("a" * 64, "v" * 4032), ("b" * 64, "w" * 4033)]
    assert problems(full) == [("request_headers", f"must not have more than {LARGEST_SUM:,} characters in all")]


def test_all_problems_are_named_at_once() -> None:
    found = problems([("Host", "x"), ("X-A", "\n"), ("a b", "ü"), ("X-B", MASK)])
    assert [field for field, _ in found] == [
        "request_headers[0].key",
        "request_headers[1].value",
        "request_headers[2].key",
        "request_headers[2].value",
        "request_headers[3].value",
    ]


def test_every_value_is_masked() -> None:
    assert masked(spelled([("A", "1"), ("B", ""), ("A", "2")])) == spelled([("A", MASK), ("B", MASK), ("A", MASK)])


KEPT: Pairs = [("X-A", "1"), ("X-B", "2"), ("x-a", "3")]
MASKED: list[tuple[Pairs, Pairs]] = [
    ([("X-A", MASK), ("X-B", MASK), ("x-a", MASK)], KEPT),
    ([("X-B", MASK)], [("X-B", "2")]),
    ([("x-b", f" {MASK} ")], [("x-b", "2")]),
    ([("X-A", "new"), ("X-A", MASK)], [("X-A", "new"), ("X-A", "3")]),
    ([("X-A", MASK), ("X-A", "new")], [("X-A", "1"), ("X-A", "new")]),
    ([("X-C", "9"), ("X-B", MASK), ("X-A", MASK)], [("X-C", "9"), ("X-B", "2"), ("X-A", "1")]),
    ([], []),
]


@pytest.mark.parametrize(("written", "meant"), MASKED)
def test_a_masked_value_is_the_one_kept_under_its_key(written: Pairs, meant: Pairs) -> None:
    assert valid_headers(spelled(written), spelled(KEPT)) == spelled(meant)


@pytest.mark.parametrize("kept", [None, [], [("X-B", "2")]])
def test_a_masked_value_with_nothing_kept_for_it_is_refused(kept: Pairs | None) -> None:
    ((field, message),) = problems([("X-B", "1"), ("X-A", MASK)], kept)
    assert field == "request_headers[1].value"
    assert "must be written out" in message


def test_more_masks_than_values_are_refused() -> None:
    found = problems([("X-B", MASK), ("X-B", MASK)], KEPT)
    assert [field for field, _ in found] == ["request_headers[1].value"]


def test_kept_values_count_in_the_sum() -> None:
    kept = [("A", "v" * 4000), ("B", "v" * 4000)]
    assert problems([*[(key, MASK) for key, _ in kept], ("C", "v" * 200)], kept)[0][0] == "request_headers"


keys = st.from_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}", fullmatch=True).map(lambda key: f"x{key}")
values = st.from_regex(r"[!-~]([ -~\t]{0,20}[!-~])?", fullmatch=True)


@given(st.lists(st.tuples(keys, values), max_size=MOST_HEADERS))
def test_what_is_read_can_be_written_back_unchanged(pairs: Pairs) -> None:
    kept = valid_headers(spelled(pairs), ())
    assert kept == spelled(pairs)
    assert valid_headers(masked(kept), kept) == kept


@given(st.lists(st.tuples(st.text(max_size=10), st.text(max_size=10)), max_size=5))
def test_whatever_is_let_through_is_safe_in_a_header(pairs: Pairs) -> None:
    try:
        valid = valid_headers(spelled(pairs), ())
    except InvalidParameters:
        return
    for header in valid:
        text = f"{header['key']}: {header['value']}"
        assert text.isascii()
        assert text.replace("\t", "").isprintable()
