"""How the attempts of one provider went lately: the chart with its figures, wherever it is shown."""

from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from billhook.console.charts import DAY, WEEK, chart, merged
from billhook.delivery import counts
from billhook.delivery.counts import Span
from billhook.storage.database import Transaction

SPANS = {"24h": DAY, "7d": WEEK}
SHOWN_FIRST = "24h"
SPELLED = {"24h": "the last 24 hours", "7d": "the last 7 days"}


@dataclass(frozen=True)
class Activity:
    span: str  # one of SPANS
    picture: Markup
    total: Span

    @property
    def spelled(self) -> str:
        return SPELLED[self.span]


async def provider_chart(tx: Transaction, provider_id: str, *, span: str, now: datetime) -> Activity:
    """`span` as the address says it: what is none of SPANS is taken for the first."""
    chosen = span if span in SPANS else SHOWN_FIRST
    frame, now_ms = SPANS[chosen], round(now.timestamp() * 1000)
    since_ms = frame.since_ms(now_ms)
    found = await counts.hours(tx, [provider_id], since_ms=since_ms)
    total = merged(since_ms, found[provider_id])
    label = f"Attempts in {SPELLED[chosen]}: {total.ok:,} delivered, {total.failed:,} failed"
    return Activity(chosen, chart(frame.fill(found[provider_id], now_ms=now_ms), label=label), total)
