"""What the benchmarks conclude: goals found in a report, and plots that stay small."""

from pathlib import Path

import pytest
from bench.all import STEPS, verdicts
from bench.axes import Sample
from bench.drawing import PICTURES, draw
from bench.growth import AXES, EFFORT, entry, judge, read, samples_of, write
from bench.receiver import Arrivals, Tally
from bench.report import Figure, Report, as_table, at_least, at_most
from bench.senders import fate_of, kill_points
from bench.side_by_side import as_markdown, missing_row

LARGEST_PLOT = 40_000  # bytes


def sample(cpu_us: float, repeats: int = 0) -> Sample:
    return Sample(cpu_us, database_us=100.0, per_second=1000.0, mebibytes=90.0, repeats=repeats)


def test_the_goals_of_a_report_are_found_again_in_its_table() -> None:
    report = Report(
        [Figure("sqlite: drain rate", 1645.0, "per s")],
        [at_least("sqlite: a rate over another", 0.56, 0.5), at_most("CPU, 100,000 over 10", 1.2, 1.1)],
    )
    found = verdicts("auth", as_table(report), status=1)
    assert [(each.what, each.met) for each in found] == [
        ("sqlite: a rate over another", True),
        ("CPU, 100,000 over 10", False),
    ]


@pytest.mark.parametrize(("status", "met"), [(0, True), (1, False), (None, False)])
def test_a_benchmark_without_a_table_is_judged_by_its_exit_status(status: int | None, met: bool) -> None:
    assert [each.met for each in verdicts("tokens", "| a | b |\n", status)] == [met]


def test_a_benchmark_that_ends_badly_misses_although_its_goals_are_met() -> None:
    said = as_table(Report([], [at_least("a rate", 2.0, 1.0)]))
    assert [each.met for each in verdicts("auth", said, status=1)] == [True, False]


def test_growth_is_judged_by_the_ratio_within_each_round() -> None:
    """The machine was twice as slow in the second round; that is not growth."""
    samples = {10: [sample(200.0), sample(500.0)], 100_000: [sample(215.0), sample(530.0)]}
    [goal] = judge("clients/sqlite", samples).goals
    assert goal.met and goal.value == pytest.approx(1.05)


def test_what_was_measured_is_read_as_it_was_written(tmp_path: Path) -> None:
    samples = {0: [sample(400.5)], 10_000: [sample(420.5)], 500: [sample(410.5)]}
    document = tmp_path / "new" / "growth.json"
    write(document, {"history/sqlite": entry(samples, EFFORT)})
    write(document, read(document) | {"clients/sqlite": entry({10: [sample(200.0)]}, EFFORT)})
    assert {which: samples_of(found) for which, found in read(document).items()} == {
        "history/sqlite": samples,
        "clients/sqlite": {10: [sample(200.0)]},
    }


def test_workers_may_not_deliver_twice() -> None:
    samples = {1: [sample(400.0)], 4: [sample(400.0, repeats=1)]}
    assert [goal.met for goal in judge("workers/postgres", samples).goals] == [True, False]


def test_every_axis_has_a_picture_and_each_is_small(tmp_path: Path) -> None:
    assert set(PICTURES) == set(AXES)
    known = {
        f"{name}/{engine}": {size: [sample(400.0), sample(420.0)] for size in axis.sizes}
        for name, axis in AXES.items()
        for engine in ("sqlite", "postgres")
    }
    pictures = draw(known, tmp_path)
    assert sorted(path.stem for path in pictures) == sorted(AXES)
    assert all(0 < path.stat().st_size < LARGEST_PLOT for path in pictures)


def test_no_benchmark_is_listed_twice() -> None:
    names = [step.name for step in STEPS]
    assert len(names) == len(set(names))


def test_a_sender_is_first_killed_in_the_middle_of_its_batch() -> None:
    assert kill_points(600, 1) == [300]
    assert kill_points(600, 3) == [300, 400, 500]


def test_what_a_store_still_holds_is_not_lost() -> None:
    fate = fate_of(Tally(count=97, distinct=95), count=100, kills=1, held_back=3, seconds=2.0)
    assert (fate.lost, fate.held_back, fate.twice) == (2, 3, 2)


def test_arrivals_are_told_apart_by_their_id_or_by_the_number_in_their_body() -> None:
    arrivals = Arrivals()
    head = b"post /hook http/1.1\r\ncontent-length: 20\r\n"
    for number in (1, 2, 2):
        arrivals.note(head, 1.0, b'{"title": "x [ref %d]"}' % number)
        arrivals.note(head + b"webhook-id: dlv_%d\r\n" % number, 1.0, b"{}")
    arrivals.answer("tally")
    assert (arrivals.tally.count, arrivals.tally.distinct) == (6, 4)


def test_what_could_not_run_has_a_row_like_the_others() -> None:
    rows = [["ours", "1.00 x", "120 us"], missing_row("a peer", 3)]
    table = as_markdown(("service", "its / ours", "CPU"), rows).splitlines()
    assert len({len(line) for line in table}) == 1
    assert table[-1].startswith("| a peer: not measured |")
