"""What templates can use."""

import pytest

from billhook.console.pages import plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Finance chat", "Finance chat"),
        ("Key \u202eevil", "Key evil"),
        ("\u2066a\u2069\u200f\u061cb\u202d", "ab"),
        ("שלום", "שלום"),
        ("👩\u200d🔧", "👩\u200d🔧"),
    ],
)
def test_marks_of_direction_are_left_out_and_nothing_else(text: str, expected: str) -> None:
    assert plain(text) == expected
