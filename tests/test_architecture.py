"""The architecture as it was decided, read from the source."""

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "billhook"
TESTS = ROOT / "tests"

ORDER = ["cli", "app", "console", "delivery", "groups", "auth", "accounts", "web", "providers", "outbound"]
ORDER += ["storage", "settings", "log", "errors"]
LONGEST_FILE = 400
LONGEST_FUNCTION = 40
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "service", "services", "common", "misc"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
HTTP_CLIENTS = {"aiohttp", "httpx", "requests", "urllib3", "http.client", "urllib.request"}
FREE_TESTS = {"scenarios", "browser"}  # these follow what people do, not the source

Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(SRC.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in SOURCES.items()}
TEST_FILES = [path for path in sorted(TESTS.rglob("test_*.py")) if path.parent != TESTS]

each_module = pytest.mark.parametrize("module", SOURCES)


def part_of(module: str) -> str:
    """The package or module right below billhook; nothing for billhook itself."""
    return module.removeprefix("billhook").removeprefix(".").partition(".")[0]


def imported(module: str) -> Iterator[str]:
    """Full names of all that is imported anywhere in the module, by any form of import."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def our_modules(module: str) -> set[str]:
    """The modules of ours that it imports; a name taken from a module counts as that module."""
    ours = {name for name in imported(module) if name.split(".")[0] == "billhook"}
    return {name if name in SOURCES else name.rpartition(".")[0] for name in ours}


def functions(module: str) -> Iterator[Function]:
    yield from (node for node in ast.walk(TREES[module]) if isinstance(node, Function))


def test_every_part_has_its_place_in_the_order() -> None:
    assert {part_of(module) for module in SOURCES} - {"", "__main__"} <= set(ORDER)


@each_module
def test_imports_point_downwards(module: str) -> None:
    if module == "billhook.__main__":
        return
    own = part_of(module)
    allowed = {own, *ORDER[ORDER.index(own) + 1 :]} if own else set()
    assert {part_of(name) for name in our_modules(module)} - {""} <= allowed


@each_module
def test_every_import_stands_at_the_top(module: str) -> None:
    hidden = [node for function in functions(module) for node in ast.walk(function)]
    assert not [node.lineno for node in hidden if isinstance(node, ast.Import | ast.ImportFrom)]


@each_module
def test_nothing_is_imported_under_another_guise(module: str) -> None:
    calls = [node.func for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)]
    names = {call.id for call in calls if isinstance(call, ast.Name)} | {
        call.attr for call in calls if isinstance(call, ast.Attribute)
    }
    assert not names & {"__import__", "import_module", "exec", "eval"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: our_modules(module) - {module, "billhook"} for module in SOURCES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" -> ".join(cycle.args[1]))


@each_module
def test_only_the_settings_read_the_environment(module: str) -> None:
    if module == "billhook.settings":
        return
    attributes = {
        node.attr
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    assert not attributes & ENVIRONMENT
    assert not set(imported(module)) & {f"os.{name}" for name in ENVIRONMENT}


@each_module
def test_only_outbound_speaks_http_to_others(module: str) -> None:
    if part_of(module) == "outbound":
        return
    names = set(imported(module))
    assert not {name for name in names if any(f"{name}.".startswith(f"{client}.") for client in HTTP_CLIENTS)}


@each_module
def test_no_file_outgrows_its_reader(module: str) -> None:
    assert len(SOURCES[module].read_text().splitlines()) <= LONGEST_FILE


@each_module
def test_no_function_outgrows_a_screen(module: str) -> None:
    if "migrations.versions" in module:
        return  # a table is as long as it is
    long = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions(module)}
    assert {name: lines for name, lines in long.items() if lines > LONGEST_FUNCTION} == {}


@each_module
def test_every_module_is_named_by_what_it_does(module: str) -> None:
    assert not set(module.split(".")) & FORBIDDEN_NAMES


@each_module
def test_every_module_says_what_it_promises(module: str) -> None:
    is_bare_package = SOURCES[module].name == "__init__.py" and not TREES[module].body
    assert is_bare_package or ast.get_docstring(TREES[module])


@each_module
def test_nothing_prints(module: str) -> None:
    calls = [node.func for node in ast.walk(TREES[module]) if isinstance(node, ast.Call)]
    assert not [call.lineno for call in calls if isinstance(call, ast.Name) and call.id in ("print", "pprint")]


BROAD = {"Exception", "BaseException"}


def is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    passes_on = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
    return not passes_on and any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in kinds)


@each_module
def test_whoever_catches_everything_says_why(module: str) -> None:
    """On the line itself: `# noqa: BLE001 - why`, or where ruff sees that the error is logged, the reason alone."""
    lines = SOURCES[module].read_text().splitlines()
    handlers = [node for node in ast.walk(TREES[module]) if isinstance(node, ast.ExceptHandler) and is_broad(node)]
    reason = re.compile(r"#\s*(noqa: BLE001 - )?\w.{10,}$")
    assert not [handler.lineno for handler in handlers if not reason.search(lines[handler.lineno - 1])]


@pytest.mark.parametrize("test_file", TEST_FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_a_test_stands_where_its_source_stands(test_file: Path) -> None:
    folder = test_file.parent.relative_to(TESTS)
    if folder.parts[0] in FREE_TESTS:
        return
    assert (SRC / folder / test_file.name.removeprefix("test_")).exists()
