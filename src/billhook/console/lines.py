"""Providers as lists show them: each with its badge, its last use and its last day, in one query for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup
from sqlalchemy import Row

from billhook.console.charts import DAY
from billhook.console.places import now_ms
from billhook.console.sparks import spark
from billhook.console.standing import Standing, last_used_ms, standing_of, was_success
from billhook.console.visit import SignedIn
from billhook.delivery import reads
from billhook.groups.model import Provider
from billhook.storage.database import Transaction


@dataclass(frozen=True)
class Line:
    provider: Provider
    standing: Standing
    last_used_ms: int | None
    was_success: bool
    bar: Markup

    @property
    def method(self) -> str:
        return str(self.provider.config["request_method"])

    @property
    def receiver(self) -> str:
        """Only where it is: the rest of the URL may be secret."""
        return urlsplit(self.provider.config["server_url"]).netloc


async def lines_of(tx: Transaction, visit: SignedIn, rows: Sequence[Row[Any]]) -> list[Line]:
    now, directory = now_ms(visit), visit.console.hub.directory
    hours = await reads.list_hours(tx, [row.id for row in rows], since_ms=DAY.since_ms(now))
    return [_line(directory.open(row), spark(hours[row.id], now_ms=now), now_ms=now) for row in rows]


def _line(provider: Provider, day: Markup, *, now_ms: int) -> Line:
    return Line(provider, standing_of(provider, now_ms=now_ms), last_used_ms(provider), was_success(provider), bar=day)
