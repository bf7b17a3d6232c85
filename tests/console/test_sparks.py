"""The small picture of a day: what was delivered and what failed, hour by hour."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from billhook.console.charts import DAY
from billhook.console.sparks import HEIGHT, STEP, spark
from billhook.delivery.counts import HOUR_MS, Span

NOW_MS = 1_794_000_000_000
FIRST_MS = DAY.since_ms(NOW_MS)
COLUMN = re.compile(r"M(\d+) (\d+)v-(\d+)")

counts = st.integers(0, 10**7)


def columns(hours: list[Span], kind: str) -> list[tuple[int, ...]]:
    """Of that colour: x, where it stands, how high it is."""
    picture = ElementTree.fromstring(spark(hours, now_ms=NOW_MS))
    (path,) = [each for each in picture.iter("path") if each.get("class") == kind]
    return [tuple(map(int, found)) for found in COLUMN.findall(path.attrib["d"])]


def hour(place: int, ok: int = 0, failed: int = 0) -> Span:
    return Span(FIRST_MS + place * HOUR_MS, ok, failed)


def test_an_empty_day_is_a_row_of_ticks() -> None:
    assert [x for x, _, _ in columns([], "none")] == [place * STEP + 2 for place in range(24)]
    assert columns([], "ok") == columns([], "bad") == []


def test_failures_stand_on_what_was_delivered() -> None:
    day = [hour(0, ok=19), hour(23, ok=9, failed=10)]
    assert columns(day, "ok") == [(2, HEIGHT, 19), (94, HEIGHT, 9)]
    assert columns(day, "bad") == [(94, HEIGHT - 9, 10)]
    assert len(columns(day, "none")) == 22


def test_one_failure_among_many_is_seen() -> None:
    assert columns([hour(5, ok=10**6, failed=1)], "bad") == [(22, 1, 1)]


def test_it_says_how_many() -> None:
    picture = ElementTree.fromstring(spark([hour(1, ok=1200, failed=3), hour(2, ok=34)], now_ms=NOW_MS))
    assert picture.get("aria-label") == picture.findtext("title") == "Last 24 hours: 1,234 delivered, 3 failed"


@given(st.dictionaries(st.integers(0, 23), st.tuples(counts, counts), max_size=24))
def test_no_column_leaves_the_picture(day: dict[int, tuple[int, int]]) -> None:
    hours = [hour(place, *counted) for place, counted in sorted(day.items())]
    for kind in ("ok", "bad", "none"):
        for x, floor, height in columns(hours, kind):
            assert 0 < x < 24 * STEP
            assert 0 < height <= floor <= HEIGHT
