"""What is wrong with a form, as people read it."""

import pytest

from billhook.console.forms import Mistakes, wrong

ID = "prv_01kqg4x0000000000000000000"


@pytest.mark.parametrize("name", ["Pager", "Pager (copy)", "a): b", "two\nlines", r"\1"])
def test_people_are_told_the_name_and_not_the_id(name: str) -> None:
    assert Mistakes(wrong("content", f"provider {ID} ({name}): too long"))["content"] == f"provider {name}: too long"


def test_an_id_without_a_name_stays() -> None:
    assert Mistakes(wrong("cursor", f"{ID} is not there"))["cursor"] == f"{ID} is not there"
