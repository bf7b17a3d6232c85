"""The soak for half a minute: processes, databases and receivers fail at random, and nothing accepted is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MINUTES = "0.5"
PATIENCE_SECONDS = 420  # for the start, the faults, and until all has settled


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_nothing_is_lost_whatever_fails(engine: str) -> None:
    """It judges itself; see bench/README.md for what it counts."""
    command = [sys.executable, "-m", "bench.soak", "--engine", engine, "--minutes", MINUTES, "--rate", "15"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert f"{engine}: accepted and lost" in done.stdout
    assert "MISSED" not in done.stdout
