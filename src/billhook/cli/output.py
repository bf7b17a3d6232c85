"""What commands print: one JSON document for machines, or text for people. And how they fail."""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, NoReturn

import orjson
import typer

from billhook.errors import BillhookError

JSON_FLAG = "--json"
Json = Annotated[bool, typer.Option(JSON_FLAG, help="Print one JSON document and nothing else.")]


# What a terminal would obey instead of showing it, and the marks that turn the direction of writing around.
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def show(document: Any, *, text: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        sys.stdout.write(f"{visible(text)}\n")
        sys.stdout.flush()  # some commands go on after it


def visible(text: str) -> str:
    """The same, whoever wrote it, with control characters spelled out, such as `\\x1b`. Line ends and tabs stay."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_json(document: Any) -> None:
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def print_json_line(document: Any) -> None:
    """One of many, for commands that go on: each on a line of its own, and at once."""
    sys.stdout.write(orjson.dumps(document).decode() + "\n")
    sys.stdout.flush()


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns with two spaces between; nothing is cut off, so that ids can be copied and lines piped on."""
    lines = [list(titles), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return "-" if value is None or value == "" else str(value)


def fail(error: BillhookError) -> NoReturn:
    """One line that says what is wrong, and status 1; with --json also a document."""
    if JSON_FLAG in sys.argv:
        print_json({"code": error.code, "message": error.message})
    reason = f" ({error.detail})" if error.detail else ""
    sys.stderr.write(f"billhook: {error.message}{reason}\n")
    raise SystemExit(1)
