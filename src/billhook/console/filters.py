"""What a list of deliveries is narrowed down to, as its address says it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from billhook.delivery.reads import Filter
from billhook.delivery.store import State
from billhook.errors import InvalidParameters
from billhook.providers.checks import checked
from billhook.storage.ids import is_id

LONGEST_MOMENT = 40
A_MOMENT = "must be a moment, such as 2026-08-22T10:00"  # in the zone that its label names


@dataclass(frozen=True)
class Asked:
    """The fields of the form as they were typed, and the place in the list."""

    fields: Mapping[str, str]  # only those that say something
    cursor: str

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Asked":
        typed = {name: query.get(name, "").strip() for name in CHECKS if name != "cursor"}
        return cls({name: text for name, text in typed.items() if text}, query.get("cursor", "").strip())

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name, "")

    def moment(self, name: str) -> str:
        return as_input(self[name])

    @property
    def is_narrow(self) -> bool:
        return bool(self.fields)

    def but(self, **changes: str) -> str:
        """The query of the same list, but with these fields; from its beginning, unless they say otherwise."""
        return urlencode({name: text for name, text in {**self.fields, **changes}.items() if text})

    def filter(self, organization_id: str, *, limit: int) -> Filter:
        """InvalidParameters with all that is wrong."""
        given = {**self.fields, "cursor": self.cursor} if self.cursor else self.fields
        values = checked(**{name: partial(CHECKS[name], name, text) for name, text in given.items()})
        if values.get("since", 0) > values.get("until", values.get("since", 0)):
            raise InvalidParameters.of("until", "must be later than the moment before it")
        return Filter(organization_id, limit=limit, **{COLUMNS.get(name, name): each for name, each in values.items()})


def parse_moment(field: str, text: str) -> int:
    """Milliseconds since 1970. As browsers write it, which is without a zone: then it is UTC."""
    try:
        at = datetime.fromisoformat(text if len(text) <= LONGEST_MOMENT else "")
    except ValueError:
        raise InvalidParameters.of(field, A_MOMENT) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def as_input(text: str) -> str:
    """The same moment as an input of a form takes it: in UTC and without a zone. Empty when it is none."""
    try:
        at = datetime.fromtimestamp(parse_moment("", text) / 1000, UTC)
    except (InvalidParameters, ValueError, OverflowError, OSError):
        return ""
    return at.strftime("%Y-%m-%dT%H:%M:%S").removesuffix(":00")


def _state(field: str, text: str) -> State:
    if text not in set(State):
        raise InvalidParameters.of(field, f"must be one of {', '.join(State)}")
    return State(text)


def _id(field: str, text: str) -> str:
    if not is_id(text):
        raise InvalidParameters.of(field, "is no id" if field != "cursor" else "is no place in this list")
    return text


CHECKS: Mapping[str, Callable[[str, str], Any]] = {
    "state": _state,
    "group_id": _id,
    "provider_id": _id,
    "notification_id": _id,
    "since": parse_moment,
    "until": parse_moment,
    "cursor": _id,
}
COLUMNS = {"since": "since_ms", "until": "until_ms", "cursor": "after"}
