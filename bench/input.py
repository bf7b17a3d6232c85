"""Bad input, counted: the tests of any input with many times more examples than on every change, and at random."""

import argparse
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import command, report
from bench.report import Figure, Report, at_most
from bench.servers import stop

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = "tests/scenarios"
PARTS = {
    "openapi": f"{SCENARIOS}/test_openapi.py",
    "scopes": f"{SCENARIOS}/test_scopes.py",
    "text": f"{SCENARIOS}/test_any_input.py",
    "tenants": f"{SCENARIOS}/test_isolation.py",
    "console": f"{SCENARIOS}/test_console_isolation.py",
    "tokens": f"{SCENARIOS}/test_jws.py",
    "addresses": f"{SCENARIOS}/test_addresses.py",
}
LINE = re.compile(r"^(?P<name>.+?): (?P<tried>[\d,]+) .* (?P<failed>[\d,]+) failed \(5xx\), (?P<leaks>[\d,]+) leaks$")
SUM = "bad input"
OPTION = "--input-times"  # of tests/tally.py
STOP_SECONDS = 20.0


def carry_out(parts: Sequence[str], *, times: int) -> tuple[int, list[str]]:
    """The exit status of the tests, and all that they print."""
    files = [PARTS[part] for part in parts]
    program = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        OPTION,
        str(times),
        *files,
    ]
    # Who is started in the background ignores interrupts, and so would the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # In a session of their own, so that who is interrupted at a terminal interrupts them once and not twice.
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as tests:
        assert tests.stdout is not None
        try:
            lines = list(_told(tests.stdout))
        except BaseException:
            # Interrupted they stop the PostgreSQL that they have started; told to stop they would leave it behind.
            stop(tests, seconds=STOP_SECONDS, by=signal.SIGINT)
            raise
    return tests.returncode, lines


def _told(stdout: Iterator[str]) -> Iterator[str]:
    for line in stdout:
        print(line, end="", file=sys.stderr, flush=True)
        yield line.rstrip("\n")


def conclude(lines: Sequence[str]) -> Report:
    """The counts of each part, and the two that must be zero."""
    found = [match for line in lines if (match := LINE.match(line))]
    sums = {match["name"]: [_number(match[each]) for each in ("tried", "failed", "leaks")] for match in found}
    _, failed, leaks = sums.get(SUM, (0, 1, 1))  # no sum: the tests did not come so far
    figures = [Figure(f"{name}: tried", counts[0], "") for name, counts in sums.items()]
    return Report(figures, [at_most("input answered 5xx", failed, 0), at_most("input that leaked", leaks, 0)])


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def run(parts: Sequence[str], *, times: int, as_document: bool) -> int:
    status, lines = carry_out(parts, times=times)
    judged = report.conclude([conclude(lines)], as_document=as_document)
    return status or judged


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench input", description=__doc__)
    parser.add_argument("--examples", type=int, default=20, help="how many times more than the tests try (20)")
    parser.add_argument(
        "--part", type=command.some_of(PARTS), default=tuple(PARTS), help=f"some of {','.join(PARTS)} (all)"
    )
    parser.add_argument("--quick", action="store_true", help="twice as many as the tests")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    options = parser.parse_args(arguments)
    times = 2 if options.quick else options.examples
    return command.carry_out(lambda: run(options.part, times=times, as_document=options.json))


if __name__ == "__main__":
    sys.exit(main())
