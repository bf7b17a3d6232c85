"""The documents say what the code does."""

import re
from pathlib import Path

import httpx
import pytest

from tests.reference import FOLDER, PAGES
from tests.support import on_one_engine

ROOT = Path(__file__).parents[1]
PAGES_OF_OURS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")]
    if ".venv" not in path.parts
)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run: .venv/bin/python -m tests.reference"


@on_one_engine
async def test_every_route_is_documented(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    page = (FOLDER / "routes.md").read_text()
    missing = [path for path in document["paths"] if f"`{path}`" not in page]
    assert missing == []


@pytest.mark.parametrize("page", PAGES_OF_OURS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_package_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = [path.parent.name for path in (ROOT / "src" / "billhook").glob("*/__init__.py")]
    assert [name for name in packages if f"`{name}/`" not in text] == []


def test_every_module_of_a_package_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    modules = [path.stem for path in (ROOT / "src" / "billhook").glob("*/*.py") if not path.stem.startswith("_")]
    assert [name for name in modules if f"`{name}`" not in text] == []


def test_the_version_has_an_entry_in_the_changelog() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_lock_files_name_no_address() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        assert not re.search(r"\w+://", (ROOT / name).read_text())
