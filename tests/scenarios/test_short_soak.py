"""The soak for a minute: processes, databases and receivers fail, each in every way, and nothing accepted is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.faults import DISK, POSTGRES, RECEIVER, kinds_of
from bench.fleet import API, SERVER, WORKER

ROOT = Path(__file__).parents[2]
SEED = "1"  # a plan of a minute with every kind of fault in it; not every seed has one
PATIENCE_SECONDS = 420  # for the start, the faults, and until all has settled
EXISTING = {"sqlite": {SERVER: 1, RECEIVER: 1, DISK: 1}, "postgres": {API: 1, WORKER: 1, POSTGRES: 1, RECEIVER: 1}}


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_nothing_is_lost_whatever_fails(engine: str) -> None:
    """It judges itself; see bench/README.md for what it counts. Here it must also have done what it is to do."""
    options = ["--engine", engine, "--minutes", "1", "--rate", "15", "--seed", SEED, "--json"]
    command = [sys.executable, "-m", "bench.soak", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["met"], report
    figures = {figure["name"].removeprefix(f"{engine}: "): figure["value"] for figure in report["figures"]}
    expected = {f"fault: {where}: {what}" for where, what, _ in kinds_of(EXISTING[engine])}
    if engine == "postgres":
        expected.add("clock of one worker off by")
    if any(name.startswith("left out") for name in figures):  # it says why: no root, or no libfaketime
        expected -= {f"fault: {DISK}: full", "clock of one worker off by"}
    assert expected <= figures.keys(), "each kind of fault has happened"
    assert figures["faults left out, since the process had not begun to work"] == 0
    assert figures["accepted"] > 100
