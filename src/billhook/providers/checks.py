"""Several checks, and all that they find at once."""

from collections.abc import Callable
from typing import Any

from billhook.errors import FieldError, InvalidParameters


def checked(**checks: Callable[[], Any]) -> dict[str, Any]:
    """What the checks return, by their names; or one error with the problems of all that refuse."""
    results: dict[str, Any] = {}
    problems: list[FieldError] = []
    for name, check in checks.items():
        try:
            results[name] = check()
        except InvalidParameters as error:
            problems += error.errors
    if problems:
        raise InvalidParameters(errors=problems)
    return results
