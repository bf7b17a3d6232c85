"""Lists, page by page: what callers may ask for, and how one page leads to the next."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query

from billhook.errors import InvalidParameters
from billhook.storage.ids import is_id
from billhook.web.documents import Meta

Limit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str | None, Query(max_length=64, description="`next_cursor` of the page before.")]


def valid_cursor(cursor: str | None, prefix: str) -> str | None:
    """The id of the last one already seen, and so of the same kind: another's would begin the list anywhere."""
    if cursor is not None and not (is_id(cursor) and cursor.startswith(f"{prefix}_")):
        raise InvalidParameters.of("cursor", "must be the next_cursor of the page before")
    return cursor


def meta_of(found: Sequence[Any], limit: int) -> Meta:
    """`found` has one more than the page when there is another page."""
    return Meta(next_cursor=found[limit - 1].id if len(found) > limit else None)
