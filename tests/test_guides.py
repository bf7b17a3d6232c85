"""The guides name commands, options, metrics, settings and log lines that are there, and their tables are true."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from bench import capacity

from billhook import cli
from billhook.app import App  # every table is known once it is imported
from billhook.settings import PREFIX, Settings
from billhook.storage.types import metadata
from tests.support import on_one_engine

ROOT = Path(__file__).parents[1]
METRIC = re.compile(r"\bbillhook_[a-z_]+\b")
COMMAND = re.compile(r"(?:^|`|\$\(|bin/)billhook ([a-z][^`\n|]*)", re.MULTILINE)
LINE_OF_LOG = re.compile(r"`((?:could not|took back|a lease was|answered with|an outcome)[^`…]*)`", re.DOTALL)
GUIDES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
SOURCE = "".join(path.read_text() for path in sorted((ROOT / "src" / "billhook").rglob("*.py")))

each_guide = pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)


def code_of(page: Path) -> str:
    """Its shell blocks, with lines that go on put together, and what is `quoted` in its text."""
    text = page.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    quoted = [f"`{' '.join(each.split())}`" for each in re.findall(r"`([^`]+)`", prose)]
    return "\n".join([*blocks, *quoted]).replace("\\\n", " ")


def commands(command: Any, *name: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, inner in command.commands.items():
        yield from commands(inner, *name, each)


@each_guide
def test_every_command_of_a_guide_is_one_that_we_have(page: Path) -> None:
    known = dict(commands(typer.main.get_command(cli.app)))
    for typed in COMMAND.findall(code_of(page)):
        words = shlex.split(typed.split(" #")[0].split(" &")[0].split(" (")[0].replace("…", "x"))
        name = next((tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in known), None)
        assert name is not None, f"billhook {typed}"
        options = {option for parameter in known[name].params for option in parameter.opts}
        given = {word.split("=")[0] for word in words if word.startswith("--")}
        assert given <= options | {"--help"}, f"billhook {typed}"


@on_one_engine
async def test_every_metric_of_a_guide_is_told(http: httpx.AsyncClient, app: App) -> None:
    app.hub.metrics.tell_of_work()  # as `billhook serve` does, which issues tokens and delivers
    families = re.findall(r"^# TYPE (\w+)", (await http.get("/metrics")).text, re.MULTILINE)
    told = {name + end for name in families for end in ("", "_total", "_bucket")}
    named = {name: page.name for page in GUIDES for name in METRIC.findall(page.read_text())}
    assert {name: page for name, page in named.items() if name not in told} == {}
    assert named, "the guides name some"


@each_guide
def test_every_setting_of_a_guide_is_one_that_we_have(page: Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(re.findall(rf"{PREFIX}[A-Z_]+", page.read_text())) - known == set()


@each_guide
def test_every_log_line_of_a_guide_is_one_that_we_write(page: Path) -> None:
    for line in LINE_OF_LOG.findall(page.read_text()):
        words = " ".join(line.split())
        pieces = re.fullmatch(r"(could not) (.+?)(; trying again)", words)
        assert words in SOURCE or (pieces and f'"{pieces[2]}"' in SOURCE), words


def test_the_capacity_table_is_what_the_script_computes() -> None:
    assert capacity.table() in (ROOT / "docs" / "how-to" / "scale-out.md").read_text(), "python -m bench.capacity"


COSTS = ("TOKEN_US", "ACCEPT_US", "ACCEPT_DATABASE_US", "DELIVERY_US", "DELIVERY_DATABASE_US")


@pytest.mark.parametrize("page", ["bench/README.md", "docs/how-to/scale-out.md"])
def test_the_costs_that_it_computes_with_are_those_that_were_measured(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [name for name in COSTS if f"{getattr(capacity, name)} us" not in text] == []


def test_the_plan_for_many_databases_knows_every_table() -> None:
    text = (ROOT / "docs" / "how-to" / "scale-out.md").read_text()
    plan = text.split("## Past one PostgreSQL")[1]
    owned = plan.split("<!-- tables with organization_id -->")[1].strip().split("\n\n")[0]
    has = {name for name, table in metadata.tables.items() if "organization_id" in table.c}
    assert set(re.findall(r"`(\w+)`", owned)) == has
    assert [name for name in metadata.tables if f"`{name}`" not in plan] == []
