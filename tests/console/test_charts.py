"""Pictures: each hour has its column, heights tell how many, and nothing in them runs or is mistaken for markup."""

from datetime import UTC, datetime
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from billhook.console import charts
from billhook.console.charts import DAY, WEEK, Frame, chart, merged, said, top_of
from billhook.delivery.counts import HOUR_MS, LAST, Span, percentile

NOW = int(datetime(2026, 11, 15, 14, 30, tzinfo=UTC).timestamp() * 1000)
THIS_HOUR = NOW // HOUR_MS * HOUR_MS
HOSTILE = "</svg><script>alert(1)</script> \" onload='x' & <b>"

counted = st.integers(0, 10**6)
spans = st.lists(
    st.builds(
        Span,
        st.integers(-200, 10).map(lambda hours: THIS_HOUR + hours * HOUR_MS),
        counted,
        counted,
        st.dictionaries(st.integers(0, LAST), counted, max_size=5),
    ),
    max_size=40,
)
frames = st.sampled_from([DAY, WEEK])


def parsed(picture: Markup) -> Element:
    return ElementTree.fromstring(picture)


def of_class(picture: Markup, kind: str) -> list[Element]:
    return [each for each in parsed(picture).iter("rect") if each.get("class") == kind]


def heights(picture: Markup, kind: str) -> list[float]:
    return [float(each.attrib["height"]) for each in of_class(picture, kind)]


def titles(picture: Markup) -> list[str]:
    return [str(each.text) for each in parsed(picture).iter("title")]


def a_day(*latest: Span) -> list[Span]:
    return DAY.fill(latest, now_ms=NOW)


def ago(hours: int, ok: int = 0, failed: int = 0, milliseconds_bucket: int = 0) -> Span:
    return Span(THIS_HOUR - hours * HOUR_MS, ok, failed, {milliseconds_bucket: ok + failed})


def test_a_day_ends_with_the_hour_we_are_in() -> None:
    day = a_day()
    assert [span.at_ms for span in day] == [THIS_HOUR - hours * HOUR_MS for hours in range(23, -1, -1)]
    assert DAY.since_ms(NOW) == day[0].at_ms


def test_a_week_is_made_of_quarters_of_days() -> None:
    week = WEEK.fill([], now_ms=NOW)
    assert len(week) == 28
    assert {span.at_ms % (6 * HOUR_MS) for span in week} == {0}
    assert week[-1].at_ms <= NOW < week[-1].at_ms + 6 * HOUR_MS
    assert WEEK.since_ms(NOW) == week[0].at_ms


def test_hours_fall_into_the_step_that_they_are_in() -> None:
    first, second = ago(0, ok=3, failed=1, milliseconds_bucket=2), ago(1, ok=4, milliseconds_bucket=9)
    week = WEEK.fill([first, second, ago(6, ok=7)], now_ms=NOW)
    assert week[-1] == Span(week[-1].at_ms, ok=7, failed=1, buckets={2: 4, 9: 4})
    assert (week[-2].ok, week[-3].ok) == (7, 0)


@given(spans, frames)
def test_filling_loses_nothing_that_is_within(given_spans: list[Span], frame: Frame) -> None:
    filled = frame.fill(given_spans, now_ms=NOW)
    end = filled[-1].at_ms + frame.step_ms
    within = [span for span in given_spans if frame.since_ms(NOW) <= span.at_ms < end]
    assert len(filled) == frame.count
    assert merged(0, filled) == merged(0, within)


def test_what_is_merged_has_the_percentile_of_all() -> None:
    together = merged(0, [Span(0, 90, 0, {0: 90}), Span(1, 10, 0, {8: 10})])
    assert together.p95_ms == percentile({0: 90, 8: 10}, 0.95)


@given(spans, frames)
def test_every_picture_is_well_formed_and_has_a_column_for_each_step(given_spans: list[Span], frame: Frame) -> None:
    filled = frame.fill(given_spans, now_ms=NOW)
    picture = chart(filled, label="x")
    root = parsed(picture)
    assert len(titles(picture)) == frame.count
    assert root.get("role") == "img"
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for rect in root.iter("rect"):
        x, y, wide, high = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x >= -0.01 and x + wide <= width + 0.01 and y >= -0.01
        assert y + high <= height + 2 * charts.LEAST


def test_heights_are_as_the_counts_are() -> None:
    picture = chart(a_day(ago(0, ok=40), ago(1, ok=20, failed=10)), label="x")
    assert heights(picture, "ok") == [80, 160]
    assert heights(picture, "bad") == [40]


def test_failures_stand_on_what_was_delivered() -> None:
    picture = chart(a_day(ago(0, ok=3, failed=5)), label="x")
    (ok,), (bad,) = of_class(picture, "ok"), of_class(picture, "bad")
    assert float(bad.attrib["y"]) + float(bad.attrib["height"]) == pytest.approx(float(ok.attrib["y"]))
    assert float(bad.attrib["height"]) / float(ok.attrib["height"]) == pytest.approx(5 / 3)


def test_one_failure_among_many_is_seen() -> None:
    assert heights(chart(a_day(ago(0, ok=10**6, failed=1)), label="x"), "bad") == [charts.LEAST]


def test_an_hour_without_attempts_is_a_tick() -> None:
    drawn = chart(a_day(ago(3, ok=1)), label="x")
    assert heights(drawn, "none") == [charts.TICK] * 23


def test_columns_say_what_they_are() -> None:
    day = a_day(ago(0, ok=12, failed=1), ago(1, ok=1234))
    assert titles(chart(day, label="x"))[-3:] == [
        "12:00 UTC: no attempts",
        "13:00 UTC: 1,234 delivered, 0 failed, 95 % within 5 ms",
        "14:00 UTC: 12 delivered, 1 failed, 95 % within 5 ms",
    ]


def test_they_say_how_long_attempts_took_and_which_hours_are_merged() -> None:
    slow = Span(THIS_HOUR, 1, 0, {LAST: 1})
    assert said(slow, HOUR_MS) == "14:00 UTC: 1 delivered, 0 failed, 95 % within 20.2 s"
    assert titles(chart(WEEK.fill([], now_ms=NOW), label="x"))[-1] == "Nov 15, 12:00 to 18:00 UTC: no attempts"


@pytest.mark.parametrize(
    ("most", "top"), [(0, 2), (1, 2), (2, 2), (3, 4), (9, 10), (11, 20), (85, 100), (101, 200), (6001, 8000)]
)
def test_scales_end_in_round_numbers(most: int, top: int) -> None:
    assert top_of(most) == top


def texts(picture: Markup, **attributes: str) -> list[str]:
    found = [each for each in parsed(picture).iter("text") if attributes.items() <= each.attrib.items()]
    return [str(each.text) for each in found]


def test_both_scales_have_three_labels() -> None:
    picture = chart(a_day(ago(0, ok=1500, milliseconds_bucket=20)), label="x")
    assert texts(picture, **{"text-anchor": "end"}) == ["0", "1,000", "2,000"]
    assert texts(picture, **{"class": "p95"}) == ["0", "3 s", "6 s"]


def test_moments_are_labelled_so_that_a_script_can_tell_them_in_another_zone() -> None:
    picture = chart(a_day(), label="x")
    assert texts(picture, **{"data-step": "hour"}) == ["18:00", "00:00", "06:00", "12:00"]
    assert texts(picture, **{"data-at": "2026-11-15T12:00:00Z"}) == ["12:00"]
    week = chart(WEEK.fill([], now_ms=NOW), label="x")
    assert texts(week, **{"data-step": "day"}) == ["Mon 9", "Tue 10", "Wed 11", "Thu 12", "Fri 13", "Sat 14", "Sun 15"]
    assert texts(week, **{"data-at": "2026-11-15T00:00:00Z"}) == ["Sun 15"]


def test_what_shows_on_hover_says_its_moments_so_that_a_script_can_tell_them_in_another_zone() -> None:
    *_, last = parsed(chart(a_day(), label="x")).iter("title")
    assert last.attrib == {
        "data-at": "2026-11-15T14:00:00Z",
        "data-until": "2026-11-15T15:00:00Z",
        "data-step": "hour",
    }
    *_, last = parsed(chart(WEEK.fill([], now_ms=NOW), label="x")).iter("title")
    assert (last.get("data-until"), last.get("data-step")) == ("2026-11-15T18:00:00Z", "hours")


def test_every_second_moment_can_be_left_out_where_there_is_little_room() -> None:
    week = chart(WEEK.fill([], now_ms=NOW), label="x")
    assert texts(week, **{"class": "spare"}) == ["Tue 10", "Thu 12", "Sat 14"]
    assert texts(chart(a_day(), label="x"), **{"class": "spare"}) == ["00:00", "12:00"]


def test_a_point_that_stands_alone_is_large_enough_to_be_seen() -> None:
    (dot,) = parsed(chart(a_day(ago(5, ok=1)), label="x")).iter("circle")
    assert float(dot.attrib["r"]) >= 3


def p95_lines(picture: Markup) -> list[int]:
    """How many points each has."""
    drawn = [each for each in parsed(picture).iter() if each.get("class") == "p95" and each.tag != "text"]
    return [len(each.attrib["points"].split()) if each.tag == "polyline" else 1 for each in drawn]


def test_the_line_breaks_where_nothing_was_attempted() -> None:
    assert p95_lines(chart(a_day(ago(0, ok=1), ago(1, ok=1), ago(3, ok=1)), label="x")) == [1, 2]


def test_without_attempts_there_is_no_line_and_no_scale_for_it() -> None:
    picture = chart(a_day(), label="x")
    assert (p95_lines(picture), texts(picture, **{"class": "p95"})) == ([], [])


def test_a_label_stays_a_label() -> None:
    root = parsed(chart(a_day(ago(0, ok=1)), label=HOSTILE))
    assert root.get("aria-label") == HOSTILE
    assert not list(root.iter("script"))


def test_nothing_in_it_styles_or_runs() -> None:
    drawn = chart(a_day(ago(0, ok=1, failed=2), ago(5, ok=9)), label=HOSTILE)
    names = {name for each in parsed(drawn).iter() for name in each.attrib}
    assert not {name for name in names if name == "style" or name.startswith("on") or "href" in name}
