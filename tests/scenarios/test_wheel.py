"""The built wheel, in an empty environment in another place, serves."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.processes import billhook_in

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left behind in the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "src", folder / "copy" / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder / "copy")
    run(*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(folder / "copy"), cwd=folder)
    (built,) = folder.glob("billhook-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel and what the lock file names, and knows nothing of this repository."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=folder)
    pip = (*PIP, "--python", str(folder / "bin" / "python"))
    lock = str(ROOT / "requirements.lock")
    run(*pip, "install", "--no-compile", "--require-hashes", "-r", lock, cwd=folder)
    run(*pip, "install", "--no-compile", "--no-deps", str(wheel), cwd=folder)
    run(*pip, "check", cwd=folder)
    return folder


def test_the_wheel_serves_and_issues_tokens(environment: Path, tmp_path: Path) -> None:
    with billhook_in(tmp_path, command=(str(environment / "bin" / "billhook"),)) as program:
        client = program.create_client()
        server = program.serve()
        assert server.accepts(server.token(client))
        assert server.http.get("/docs").status_code == 200, "the templates are in the wheel"
        assert server.stop() == 0
