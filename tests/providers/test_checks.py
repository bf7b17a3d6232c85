"""Several checks at once."""

import pytest

from billhook.errors import FieldError, InvalidParameters
from billhook.providers.checks import checked


def refuse(field: str) -> None:
    raise InvalidParameters.of(field, "is wrong")


def test_results_come_by_name() -> None:
    assert checked(a=lambda: 1, b=lambda: 2) == {"a": 1, "b": 2}


def test_every_problem_is_told() -> None:
    with pytest.raises(InvalidParameters) as refused:
        checked(a=lambda: refuse("a"), b=lambda: 2, c=lambda: refuse("d"))
    assert refused.value.errors == (FieldError("a", "is wrong"), FieldError("d", "is wrong"))
    assert refused.value.message == "a: is wrong; d: is wrong"


def test_a_bug_is_not_a_problem_of_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        checked(a=lambda: 1 / 0)
