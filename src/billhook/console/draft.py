"""What somebody has typed into the provider form, before anybody has said that it is valid. Pure."""

import re
from dataclasses import dataclass, replace
from typing import Any

from billhook.console.forms import Form
from billhook.errors import FieldError, InvalidParameters
from billhook.groups.manage import ProviderSpec
from billhook.groups.model import LONGEST_NAME, Provider
from billhook.providers.kinds import MASK, Config
from billhook.providers.registry import TYPES, provider_type

PLACE = re.compile(r"request_headers\[(\d+)\]")
NUMBER = re.compile(r"[0-9]{1,9}")
NO_NUMBER = -1  # which the rules refuse, with all other mistakes at once
COPY = " (copy)"


@dataclass(frozen=True)
class Row:
    """One header."""

    key: str = ""
    value: str = ""
    kept: str = ""  # the place of the stored header that it was when the form was made; nothing for a new one

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
        headers = enumerate(shown["request_headers"])
        return cls(
            type=provider.type,
            name=provider.name,
            server_url=shown["server_url"],
            request_method=shown["request_method"],
            rows=tuple(Row(header["key"], header["value"], str(place)) for place, header in headers),
            rate_limit=str(provider.rate_limit or ""),
        )

    def copied(self) -> "Draft":
        """For another provider: what is secret has to be typed again."""
        name = self.name[: LONGEST_NAME - len(COPY)] + COPY
        return replace(self, name=name, rows=tuple(Row(row.key) for row in self.rows))

    def with_row(self) -> "Draft":
        return replace(self, rows=(*self.rows, Row()))

    def without_row(self, place: str) -> "Draft":
        return replace(self, rows=tuple(row for at, row in enumerate(self.rows) if str(at) != place))

    def spec(self) -> ProviderSpec:
        return ProviderSpec(self.type, self.name, self.fields(None), self._rate_limit())

    def changes(self, stored: Config) -> dict[str, Any]:
        common = {"type": self.type, "name": self.name, "rate_limit": self._rate_limit() or 0}
        return common | self.fields(stored)

    def fields(self, stored: Config | None) -> dict[str, Any]:
        """The fields of its type, with what is stored in the place of dots."""
        kept = stored["request_headers"] if stored else []
        given = [{"key": row.key, "value": _value(row, kept)} for row in self.rows if not row.is_blank]
        return {"server_url": self.server_url, "request_method": self.request_method, "request_headers": given}

    @property
    def headers(self) -> list[dict[str, str]]:
        """As they are typed; rows in which nothing was typed do not count."""
        return [{"key": row.key.strip(), "value": row.value.strip()} for row in self.rows if not row.is_blank]

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


def _value(row: Row, stored: list[dict[str, str]]) -> str:
    """Dots stand for the value stored at that place, as long as it is still that header."""
    places = {str(place): header for place, header in enumerate(stored)}
    header = places.get(row.kept)
    is_same = header is not None and header["key"].lower() == row.key.strip().lower()
    return header["value"] if header is not None and is_same and row.value == MASK else row.value
