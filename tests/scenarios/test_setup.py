"""The scripts on a machine that may not have what they need, and what they pass on."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "cat", "cksum", "rm")
OLD_PYTHON = """#!/bin/sh
if [ "$1" = --version ]; then echo "Python 3.8.10"; exit 0; fi
exit 1
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The repository as somebody has just cloned it, as far as the set-up reads it."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for name in ("pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with what every machine has, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    return folder


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHON"} | environment
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)


def install_old_python(folder: Path) -> Path:
    fake = folder / "python3"
    fake.write_text(OLD_PYTHON)
    fake.chmod(0o755)
    return fake


@pytest.mark.parametrize("script", ["setup", "serve", "test"])
def test_a_python_that_is_too_old_gets_one_clear_line(checkout: Path, tools: Path, script: str) -> None:
    install_old_python(tools)
    done = run(f"scripts/{script}", cwd=checkout, PATH=str(tools))
    assert done.returncode == 1
    assert done.stderr == "Billhook needs Python 3.11 or newer; found: Python 3.8.10. Set PYTHON to a newer one.\n"
    assert not (checkout / ".venv").exists()


def test_a_python_that_was_named_and_is_too_old_is_not_replaced_by_another(checkout: Path, tmp_path: Path) -> None:
    fake = install_old_python(tmp_path)
    done = run("scripts/setup", cwd=checkout, PYTHON=str(fake))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "3.11 or newer" in done.stderr


def test_a_machine_without_python_gets_one_clear_line(checkout: Path, tools: Path) -> None:
    done = run("scripts/setup", cwd=checkout, PATH=str(tools))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "3.11 or newer" in done.stderr


def test_the_test_script_passes_its_arguments_on(tmp_path: Path) -> None:
    done = run(str(ROOT / "scripts" / "test"), "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pytest" in done.stdout


def test_the_serve_script_passes_its_arguments_on(tmp_path: Path) -> None:
    done = run(str(ROOT / "scripts" / "serve"), "--nonsense", cwd=tmp_path)
    assert done.returncode == 2
    assert "--nonsense" in done.stderr
