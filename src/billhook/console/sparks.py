"""The last day of a provider as a picture so small that a list can have a hundred of them. Pure."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from billhook.console.charts import DAY
from billhook.delivery.counts import HOUR_MS, Span

HEIGHT = 20
STEP = 4  # from one column to the next; a column is a stroke, as wide as the style sheet says


def spark(hours: Sequence[Span], *, now_ms: int) -> Markup:
    """A column for each hour, delivered below and failed on top. Hours without attempts may be left out."""
    ok, failed = sum([span.ok for span in hours]), sum([span.failed for span in hours])
    label = f"Last 24 hours: {ok:,} delivered, {failed:,} failed"
    since_ms = DAY.since_ms(now_ms)
    paths = _paths({(span.at_ms - since_ms) // HOUR_MS: span for span in hours})
    box = f"0 0 {DAY.count * STEP} {HEIGHT}"
    return Markup(
        f'<svg class="spark" viewBox="{box}" role="img" aria-label="{label}"><title>{label}</title>{paths}</svg>'
    )


def _paths(columns: Mapping[int, Span]) -> str:
    """One for each colour."""
    most = max([span.ok + span.failed for span in columns.values()], default=0)
    ok, bad = [], []
    for place, span in columns.items():
        x, high = place * STEP + STEP // 2, _height(span.ok, most)
        if high:
            ok.append(f"M{x} {HEIGHT}v-{high}")
        if span.failed:
            bad.append(f"M{x} {HEIGHT - high}v-{_height(span.failed, most)}")
    none = [f"M{place * STEP + STEP // 2} {HEIGHT}v-1" for place in range(DAY.count) if place not in columns]
    return "".join(
        [f'<path class="{kind}" d="{"".join(d)}"/>' for kind, d in (("none", none), ("ok", ok), ("bad", bad))]
    )


def _height(count: int, most: int) -> int:
    """One failure among thousands must still be seen, and fit."""
    return max(1, round(count * (HEIGHT - 1) / most)) if count else 0
