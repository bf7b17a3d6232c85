"""What somebody has typed into the provider form, before anybody has said that it is valid. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from billhook.console.forms import Form
from billhook.errors import FieldError, InvalidParameters
from billhook.groups.manage import ProviderSpec
from billhook.groups.model import LONGEST_NAME, Provider
from billhook.providers.kinds import MASK
from billhook.providers.registry import TYPES, provider_type

PLACE = re.compile(r"request_headers\[(\d+)\]")
NUMBER = re.compile(r"[0-9]{1,9}")
NO_NUMBER = -1  # which the rules refuse, with all other mistakes at once
BLANKS = " \t"  # that the rules leave off as well
COPY = " (copy)"
AGAIN = "again"  # kept of a copied header: its name, while its value has to be typed again
TYPED_AGAIN = "must be entered again: values of headers are not copied"
MOVED = "must be entered again, because headers of this name were removed or moved"


@dataclass(frozen=True)
class Row:
    """One header."""

    key: str = ""
    value: str = ""
    kept: str = ""  # which of the stored headers of its name it is, from 0; or AGAIN; nothing for a new one

    @property
    def name(self) -> str:
        """Names of headers are the same in any case."""
        return self.key.strip(BLANKS).lower()

    @property
    def is_awaited(self) -> bool:
        """Whether the one that it is a copy of had a value, and this one has none yet."""
        return self.kept == AGAIN and self.value.strip(BLANKS) in ("", MASK)

    @property
    def is_blank(self) -> bool:
        return not self.key.strip() and not self.value.strip()


@dataclass(frozen=True)
class Draft:
    type: str = next(iter(TYPES))
    name: str = ""
    server_url: str = ""
    request_method: str = "POST"
    rows: tuple[Row, ...] = ()
    rate_limit: str = ""

    @classmethod
    def typed(cls, form: Form) -> "Draft":
        keys, values, kept = (form.all(f"header_{part}") for part in ("key", "value", "kept"))
        rows = tuple(Row(*each) for each in zip(keys, values, kept, strict=False))
        names = ("type", "name", "server_url", "request_method", "rate_limit")
        return cls(**{name: form[name] for name in names}, rows=rows)

    @classmethod
    def of(cls, provider: Provider) -> "Draft":
        """As it is stored, with dots for the values of its headers."""
        shown = provider_type(provider.type).show(provider.config)
        rows = [Row(header["key"], header["value"]) for header in shown["request_headers"]]
        return cls(
            type=provider.type,
            name=provider.name,
            server_url=shown["server_url"],
            request_method=shown["request_method"],
            rows=tuple(replace(row, kept=str(place)) for row, place in _counted(rows)),
            rate_limit=str(provider.rate_limit or ""),
        )

    def copied(self) -> "Draft":
        """For another provider: what is secret has to be typed again."""
        name = self.name[: LONGEST_NAME - len(COPY)] + COPY
        return replace(self, name=name, rows=tuple(Row(row.key, kept=AGAIN) for row in self.rows))

    def with_row(self) -> "Draft":
        return replace(self, rows=(*self.rows, Row()))

    def without_row(self, place: str) -> "Draft":
        return replace(self, rows=tuple(row for at, row in enumerate(self.rows) if str(at) != place))

    def spec(self) -> ProviderSpec:
        return ProviderSpec(self.type, self.name, self.fields(), self._rate_limit())

    def changes(self) -> dict[str, Any]:
        common = {"type": self.type, "name": self.name, "rate_limit": self._rate_limit() or 0}
        return common | self.fields()

    def fields(self) -> dict[str, Any]:
        """The fields of its type, in which dots stand for what is stored; or an error where it is not clear for which.

        The rules count: the second header of a name has the second value stored under that name.
        """
        problems = [
            FieldError(f"request_headers[{place}].value", reason)
            for place, (row, count) in enumerate(_counted(self._filled))
            if (reason := _unclear(row, count))
        ]
        if problems:
            raise InvalidParameters(errors=problems)
        return {"server_url": self.server_url, "request_method": self.request_method, "request_headers": self.headers}

    @property
    def headers(self) -> list[dict[str, str]]:
        """As they are typed; rows in which nothing was typed do not count."""
        return [{"key": row.key.strip(BLANKS), "value": row.value.strip(BLANKS)} for row in self._filled]

    @property
    def _filled(self) -> list[Row]:
        return [row for row in self.rows if not row.is_blank]

    def at_its_rows(self, error: InvalidParameters) -> InvalidParameters:
        """The same, with the mistake of a header where the form has that header."""
        places = [place for place, row in enumerate(self.rows) if not row.is_blank]

        def in_form(found: re.Match[str]) -> str:
            return f"request_headers[{places[int(found[1])]}]"

        return InvalidParameters(
            error.message, errors=[FieldError(PLACE.sub(in_form, each.field), each.message) for each in error.errors]
        )

    def _rate_limit(self) -> int | None:
        written = self.rate_limit.strip()
        if not written:
            return None
        return int(written) if NUMBER.fullmatch(written) else NO_NUMBER


def _unclear(row: Row, count: int) -> str:
    """Why it cannot be said which value is meant, if so. `count`: how many of its name come before it."""
    if row.is_awaited:
        return TYPED_AGAIN
    return MOVED if row.value.strip(BLANKS) == MASK and row.kept not in ("", str(count)) else ""


def _counted(rows: Iterable[Row]) -> Iterator[tuple[Row, int]]:
    """Each with how many of its name come before it."""
    seen: Counter[str] = Counter()
    for row in rows:
        yield row, seen[row.name]
        seen[row.name] += 1
