"""What the benchmarks conclude: goals found in a report, and plots that stay small. And how they end."""

import argparse
import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from bench import command
from bench.all import STEPS, Bar, Run, Verdict, chosen, verdicts, watching
from bench.axes import Sample
from bench.drawing import PICTURES, draw
from bench.growth import AXES, EFFORT, entry, judge, read, samples_of, write
from bench.receiver import Arrivals, Tally, receiver
from bench.report import Figure, Report, as_table, at_least, at_most
from bench.senders import fate_of, kill_points
from bench.servers import Failed, running, server_of, stop
from bench.side_by_side import as_markdown, missing_row
from rich.console import Console
from rich.progress import Progress

LARGEST_PLOT = 40_000  # bytes
SCRIPT = Path(__file__).parent.parent / "scripts" / "bench"


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


def test_the_bar_moves_with_the_expected_time_and_waits_for_a_step_that_takes_longer() -> None:
    steps = chosen(["auth", "timing"], asked_for=set())
    first, whole = steps[0].seconds, sum(step.seconds for step in steps)
    output = StringIO()
    with Progress(console=Console(file=output), auto_refresh=False) as progress:
        bar = Bar(progress, steps, is_quick=False)
        bar.begin(steps[0], 1)
        [task] = progress.tasks
        assert (task.total, task.description) == (whole, "1/2 auth")
        seen = []
        for seconds in (first / 2, first, first * 9):
            bar.look(seconds)
            seen.append(task.completed)
        assert seen == [first / 2, first, first]
        bar.end(steps[0], Run(75.0, [Verdict("auth", "a goal", "1", met=False)]))
        bar.begin(steps[1], 2)
        bar.look(1.0)
        assert (task.completed, task.description) == (first + 1.0, "2/2 timing")
        bar.end(steps[1], Run(3.0, []))
        assert task.finished
    assert "auth: 0 met, 1 missed, 1 min 15 s" in output.getvalue()


def test_where_there_is_no_terminal_lines_tell_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    steps = chosen(["timing"], asked_for=set())
    with watching(steps, is_quick=True) as watch:
        watch.begin(steps[0], 1)
        watch.look(5.0)
        watch.end(steps[0], Run(21.0, []))
    assert capsys.readouterr().err == "1/1 timing ... (about 20 s)\ntiming: 0 met, 0 missed, 21 s\n"


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


def test_an_axis_of_which_only_the_empty_size_is_known_has_a_picture(tmp_path: Path) -> None:
    [picture] = draw({"history/sqlite": {0: [sample(400.0)]}}, tmp_path)
    assert picture.stat().st_size


def test_all_are_all_that_the_script_names() -> None:
    [names] = re.findall(r"^(all [a-z| ]+)\)", SCRIPT.read_text(), re.MULTILINE)
    assert sorted(names.split(" | ")) == sorted(["all", *(step.name for step in STEPS)])


def test_what_takes_long_runs_when_it_is_asked_for() -> None:
    usual = [step.name for step in chosen(None, asked_for=set())]
    assert "profile" in usual and not {"soak", "input"} & set(usual)
    assert [step.name for step in chosen(None, asked_for={"soak"})] == [*usual, "soak"]
    assert [step.name for step in chosen(["soak", "auth"], asked_for=set())] == ["auth", "soak"]


@pytest.mark.parametrize("is_quick", [True, False])
def test_all_soak_both_engines(is_quick: bool) -> None:
    [soak] = chosen(["soak"], asked_for=set())
    assert "--engine both" in " ".join(soak.command(is_quick))


def test_an_option_takes_some_of_what_is_known() -> None:
    parse = command.some_of(["a", "b", "c"])
    assert parse("c,a") == ("c", "a")
    with pytest.raises(argparse.ArgumentTypeError, match="unknown: x, y; there are a, b, c"):
        parse("y,a,x")


def test_both_are_all_engines() -> None:
    assert command.engines_of("both") == ("sqlite", "postgres")
    assert command.engines_of("postgres") == ("postgres",)


def test_a_command_that_fails_says_why_and_leaves_no_handler_behind(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        raise Failed("no such thing here")

    before = signal.getsignal(signal.SIGTERM)
    assert command.carry_out(work) == 1
    assert "no such thing here" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_command_that_is_told_to_stop_unwinds() -> None:
    unwound = []

    def work() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            unwound.append(True)
        return 0

    with pytest.raises(SystemExit) as ended:
        command.carry_out(work)
    assert (ended.value.code, unwound) == (143, [True])


def python(program: str) -> "subprocess.Popen[bytes]":
    """Back when it has said a line, if it does."""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


def test_who_does_not_stop_is_killed() -> None:
    deaf = python("import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()")
    stop(deaf, seconds=0.1)
    assert deaf.returncode == -signal.SIGKILL


def test_who_has_ended_may_be_stopped() -> None:
    gone = python("")
    gone.wait()
    stop(gone)
    assert gone.returncode == 0


def test_a_server_that_has_ended_is_a_failure_and_no_crash() -> None:
    child = python("print(flush=True); import signal; signal.pause()")
    server = server_of("a server", child.pid)
    assert server.is_alive and server.rss_bytes() and server.memory_bytes() and server.processes() == 1
    stop(child)
    assert not server.is_alive
    for ask in (server.cpu_seconds, server.rss_bytes, server.memory_bytes, server.processes):
        with pytest.raises(Failed, match="a server has ended"):
            ask()
    with pytest.raises(Failed, match="a server has ended"):
        server.signal(signal.SIGUSR1)
    with pytest.raises(Failed, match="a server has ended"):
        server_of("a server", child.pid)


def test_nobody_waits_for_what_a_sender_that_has_ended_would_have_sent(tmp_path: Path) -> None:
    log = tmp_path / "sender.log"
    with (
        receiver() as to,
        running("a sender", [sys.executable, "-c", "print('out of stamps')"], environment={}, log=log) as sender,
        pytest.raises(Failed, match=r"a sender delivered 0 of 1 within \d+ s:\nout of stamps"),
    ):
        to.wait_for(1, seconds=60.0, by=[sender])


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
