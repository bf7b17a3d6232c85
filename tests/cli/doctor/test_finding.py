"""How findings are worded."""

from datetime import timedelta

import pytest

from billhook.cli.doctor.finding import named, several, spoken


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (0, "0 seconds"),
        (1.9, "1 second"),
        (59, "59 seconds"),
        (3599, "59 minutes"),
        (timedelta(hours=1), "1 hour"),
        (timedelta(days=2, hours=23), "2 days"),
    ],
)
def test_durations_are_spoken(duration: timedelta | float, words: str) -> None:
    assert spoken(duration) == words


def test_few_are_named_and_of_many_the_first() -> None:
    assert named(["a", "b", "c"]) == "a, b, c"
    assert named(["a", "b", "c", "d"]) == "a, b, c and more"


def test_more_than_are_counted_are_said_to_be_more() -> None:
    assert several(1, "group", "groups") == "1 group"
    assert several(1234, "group", "groups") == "1,234 groups"
    assert several(11, "group", "groups", most=10) == "more than 10 groups"
