"""An environment of its own for other people's Python packages, made when a comparison first asks for one."""

import json
import subprocess
import sys
from pathlib import Path

from bench.servers import Failed

HERE = Path(__file__).parent  # where the small programs are that run in it
FOLDER = HERE.parent / ".peers" / "python"
PYTHON = FOLDER / "bin" / "python"
STAMP = FOLDER / "installed.json"
INSTALL_SECONDS = 600.0


def peers_python(*packages: str) -> Path:
    """Its interpreter, with these packages installed by name; the newest there are on the day it was made."""
    if not PYTHON.exists():
        _run([sys.executable, "-m", "venv", str(FOLDER)])
    installed = set(json.loads(STAMP.read_text())) if STAMP.exists() else set()
    if missing := sorted(set(packages) - installed):
        print(f"installing {', '.join(missing)} ...", file=sys.stderr, flush=True)
        _run([str(PYTHON), "-m", "pip", "install", "--quiet", *missing])
        STAMP.write_text(json.dumps(sorted(installed | set(missing))))
    return PYTHON


def version_of(package: str) -> str:
    """Of an installed one, with its name as its makers write it."""
    ask = "import sys, importlib.metadata as m; d = m.metadata(sys.argv[1]); print(d['Name'], d['Version'])"
    return _run([str(PYTHON), "-c", ask, package]).strip()


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Failed(f"{' '.join(command)}: {problem}") from problem
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise Failed(f"{' '.join(command)}: exit status {done.returncode}: {last}")
    return done.stdout
