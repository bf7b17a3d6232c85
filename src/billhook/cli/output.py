"""What commands print: one JSON document for machines, or text for people. And how they fail."""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NoReturn

import orjson
import typer
from rich.console import Console
from rich.table import Table

from billhook.errors import BillhookError

JSON_FLAG = "--json"
Json = Annotated[bool, typer.Option(JSON_FLAG, help="Print one JSON document and nothing else.")]

screen = Console(highlight=False, soft_wrap=True)


def show(document: Any, *, text: str | Table, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        screen.print(text, markup=False) if isinstance(text, str) else screen.print(text)


def print_json(document: Any) -> None:
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    made = Table(*titles, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*("-" if cell is None else str(cell) for cell in row))
    return made


def fail(error: BillhookError) -> NoReturn:
    """One line that says what is wrong, and status 1; with --json also a document."""
    if JSON_FLAG in sys.argv:
        print_json({"code": error.code, "message": error.message})
    reason = f" ({error.detail})" if error.detail else ""
    sys.stderr.write(f"billhook: {error.message}{reason}\n")
    raise SystemExit(1)
