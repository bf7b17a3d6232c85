"""The chart of one provider, with its figures."""

from datetime import UTC, datetime

import pytest

from billhook.console.activity import provider_chart
from billhook.delivery import counts
from billhook.delivery.counts import HOUR_MS
from billhook.storage.database import Database

NOW = datetime(2026, 6, 3, 12, 30, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("span", "chosen", "delivered"), [("24h", "24h", 1), ("7d", "7d", 2), ("", "24h", 1), ("<b>", "24h", 1)]
)
async def test_the_figures_are_of_the_span_that_is_shown(db: Database, span: str, chosen: str, delivered: int) -> None:
    async with db.transaction() as tx:
        ages = {"new": 0, "old": 30 * HOUR_MS}
        keys = [counts.key_of("prv", at_ms=NOW_MS - age, is_ok=True, milliseconds=20) for age in ages.values()]
        await counts.add(tx, [*keys, counts.key_of("prv", at_ms=NOW_MS, is_ok=False, milliseconds=20)])
        await counts.add(tx, [counts.key_of("another", at_ms=NOW_MS, is_ok=False, milliseconds=20)])
    async with db.reading() as tx:
        found = await provider_chart(tx, "prv", span=span, now=NOW)
    assert (found.span, found.total.ok, found.total.failed) == (chosen, delivered, 1)
    assert found.total.p95_ms is not None
    assert found.picture.startswith("<svg")
    assert f"{delivered} delivered, 1 failed" in found.picture


async def test_a_provider_without_attempts_has_an_empty_chart(db: Database) -> None:
    async with db.reading() as tx:
        found = await provider_chart(tx, "prv", span="24h", now=NOW)
    assert (found.total.ok, found.total.failed, found.total.p95_ms) == (0, 0, None)
    assert found.spelled == "the last 24 hours"
