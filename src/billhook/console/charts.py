"""How attempts went, as pictures: SVG without any style or script of its own, as the pages' policy wants it. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from markupsafe import Markup, escape

from billhook.delivery.counts import HOUR_MS, Span

FILLED = 0.75  # of a step is column, the rest is the gap to the next
LEAST = 1.0  # in height: one failure among thousands must still be seen
TICK = 1.0  # the height of a step in which nothing was attempted

WIDTH, HEIGHT = 480, 200  # no wider, so that labels can be read where it is drawn small
LEFT, RIGHT, TOP, BOTTOM = 52, 406, 12, 172  # of the columns; around them is room for labels
LABEL_GAP = 6
DOT = 3.5  # the radius of a point that stands alone
MIDDLE = 4  # from the middle of a label to the line that it stands on
BELOW = 17  # from the columns to the line that moments stand on
DAY_MS = 24 * HOUR_MS
LABELLED_HOURS_MS = 6 * HOUR_MS  # "02:00 PM" is about as wide as four hours


@dataclass(frozen=True, slots=True)
class Frame:
    """How far back a picture goes, and in which steps."""

    count: int
    step_ms: int

    def since_ms(self, now_ms: int) -> int:
        """When its first step begins; its last one is the one we are in."""
        return (now_ms // self.step_ms - self.count + 1) * self.step_ms

    def fill(self, spans: Iterable[Span], *, now_ms: int) -> list[Span]:
        """One for each step, the oldest first, also where nothing was attempted."""
        within: dict[int, list[Span]] = defaultdict(list)
        for span in spans:
            within[span.at_ms // self.step_ms].append(span)
        first = now_ms // self.step_ms - self.count + 1
        return [merged(place * self.step_ms, within[place]) for place in range(first, first + self.count)]


DAY = Frame(24, HOUR_MS)
WEEK = Frame(28, 6 * HOUR_MS)


def merged(at_ms: int, spans: Sequence[Span]) -> Span:
    buckets: Counter[int] = Counter()
    for span in spans:
        buckets.update(span.buckets)
    return Span(at_ms, sum(span.ok for span in spans), sum(span.failed for span in spans), buckets)


def chart(points: Sequence[Span], *, label: str) -> Markup:
    """What `DAY.fill` or `WEEK.fill` gives, with a line for how long attempts took."""
    step_ms = points[1].at_ms - points[0].at_ms
    step = (RIGHT - LEFT) / len(points)
    most = top_of(max(span.ok + span.failed for span in points))
    unit = (BOTTOM - TOP) / most
    columns = [
        _column(span, _title(span, step_ms), x=LEFT + place * step, step=step, floor=BOTTOM, unit=unit)
        for place, span in enumerate(points)
    ]
    inside = [*_grid(most), *columns, *_slowness(points, step), *_when(points, step)]
    return _tag("svg", *inside, class_="chart", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)


def top_of(most: float) -> int:
    """A round number that is not below it, and of which half is round as well."""
    power = 1
    while most > 10 * power:
        power *= 10
    return next(digit * power for digit in (2, 4, 6, 8, 10) if digit * power >= most)


def said(span: Span, step_ms: int) -> str:
    """`14:00 UTC: 12 delivered, 1 failed, 95 % within 80 ms`"""
    result = f"{span.ok:,} delivered, {span.failed:,} failed" if span.ok or span.failed else "no attempts"
    slow = f", 95 % within {_took(round(span.p95_ms or 0))}" if span.p95_ms else ""
    return f"{_spelled(span.at_ms, step_ms)}: {result}{slow}"


def _title(span: Span, step_ms: int) -> Markup:
    """What shows on hover; a script turns its moments, which are in UTC, into the reader's own time."""
    kind = "hour" if step_ms == HOUR_MS else "hours"
    begin, end = _iso(span.at_ms), _iso(span.at_ms + step_ms)
    return _tag("title", said(span, step_ms), data_at=begin, data_until=end, data_step=kind)


def _spelled(at_ms: int, step_ms: int) -> str:
    at = _moment(at_ms)
    if step_ms == HOUR_MS:
        return f"{at:%H:%M} UTC"
    return f"{at:%b} {at.day}, {at:%H:%M} to {_moment(at_ms + step_ms):%H:%M} UTC"


def _column(span: Span, title: Markup, *, x: float, step: float, floor: float, unit: float) -> Markup:
    """Delivered below, failed on top; and a title that shows wherever above the floor one points at."""
    width = step * FILLED
    place = {"x": x + (step - width) / 2, "width": width}
    ok, bad = (max(count * unit, LEAST) if count else 0.0 for count in (span.ok, span.failed))
    parts = [title, _tag("rect", x=x, y=0, width=step, height=floor, fill="none", pointer_events="all")]
    if ok:
        parts.append(_tag("rect", class_="ok", **place, y=floor - ok, height=ok))
    if bad:
        parts.append(_tag("rect", class_="bad", **place, y=max(floor - ok - bad, 0.0), height=bad))
    if not ok and not bad:
        parts.append(_tag("rect", class_="none", **place, y=floor - TICK, height=TICK))
    return _tag("g", *parts)


def _grid(most: int) -> Iterator[Markup]:
    for share in (0.0, 0.5, 1.0):
        y = _height(share)
        yield _tag("line", class_="axis", x1=LEFT, x2=RIGHT, y1=y, y2=y)
        yield _tag("text", f"{round(most * share):,}", x=LEFT - LABEL_GAP, y=y + MIDDLE, text_anchor="end")


def _slowness(points: Sequence[Span], step: float) -> Iterator[Markup]:
    """The line and its scale. It breaks where nothing was attempted; what stands alone is a dot."""
    slow = [span.p95_ms for span in points]
    known = [each for each in slow if each is not None]
    if not known:
        return
    most = top_of(max(known))
    for share in (0.0, 0.5, 1.0):
        scale = {"x": RIGHT + LABEL_GAP, "y": _height(share) + MIDDLE}
        yield _tag("text", _took(round(most * share)), class_="p95", **scale)
    for is_known, run in groupby(enumerate(slow), lambda each: each[1] is not None):
        if is_known:
            yield _line([(LEFT + (place + 0.5) * step, _height((each or 0) / most)) for place, each in run])


def _line(points: Sequence[tuple[float, float]]) -> Markup:
    if len(points) == 1:
        ((x, y),) = points
        return _tag("circle", class_="p95", cx=x, cy=y, r=DOT)
    corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
    return _tag("polyline", class_="p95", points=corners, stroke_linejoin="round")


def _when(points: Sequence[Span], step: float) -> Iterator[Markup]:
    """In UTC, as the steps are; a script moves days to where those of the reader begin."""
    step_ms = points[1].at_ms - points[0].at_ms
    is_by_hour = step_ms == HOUR_MS
    every_ms, kind = (LABELLED_HOURS_MS, "hour") if is_by_hour else (DAY_MS, "day")
    labelled = [(place, span.at_ms) for place, span in enumerate(points) if span.at_ms % every_ms == 0]
    for number, (place, at_ms) in enumerate(labelled):
        at = _moment(at_ms)
        text = f"{at:%H:%M}" if is_by_hour else f"{at:%a} {at.day}"
        where = {"x": LEFT + (place + 0.5) * step, "y": BOTTOM + BELOW}
        spare = {"class_": "spare"} if number % 2 else {}  # left out where there is little room
        room = {} if is_by_hour else {"data_day": DAY_MS / step_ms * step, "data_from": LEFT, "data_to": RIGHT}
        yield _tag("text", text, **where, text_anchor="middle", data_at=_iso(at_ms), data_step=kind, **room, **spare)


def _height(share: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * share


def _took(milliseconds: int) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.3g} s"
    return f"{milliseconds} ms" if milliseconds else "0"


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _iso(at_ms: int) -> str:
    return _moment(at_ms).isoformat().replace("+00:00", "Z")


def _tag(name: str, *inside: str, **attributes: str | float) -> Markup:
    """An element; whatever is no markup yet is escaped. Attributes as in SVG, but `class_` and `text_anchor`."""
    spelled = [f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items()]
    return Markup(f"<{name}{''.join(spelled)}>{''.join(map(escape, inside))}</{name}>")


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return f"{round(value, 2):g}"
