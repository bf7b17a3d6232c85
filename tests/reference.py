"""The reference pages, made from the code. `python -m tests.reference` writes them, test_docs.py holds them true."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import SecretStr

from billhook import cli, errors
from billhook.auth.model import SCOPES
from billhook.settings import PREFIX, Settings

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- Made by `python -m tests.reference`; change the code instead. -->\n"


def settings_page() -> str:
    rows = [_setting_row(name, field) for name, field in Settings.model_fields.items()]
    intro = "# Settings\n\nAll come from the environment, are read once at the start, and are checked there.\n"
    return "\n".join([MADE + intro, "| variable | default | meaning |", "|---|---|---|", *rows, ""])


def _setting_row(name: str, field: Any) -> str:
    default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
    shown = "empty" if default in ("", ()) else f"`{default}`"
    return f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |"


def errors_page() -> str:
    rows = [
        f"| {kind.status} | `{kind.code}` | {kind.message or 'says what is in the way'} |" for kind in public_errors()
    ]
    intro = (
        '# Errors\n\nEvery error of every route is `{"code", "message"}`. A 400 under `/api/v1` may add\n'
        '`"errors": [{"field", "message"}]`. At `/oauth2/…` the same object also has RFC 6749\'s `error` and\n'
        "`error_description`. `code` is stable; `message` is for people.\n"
    )
    return "\n".join([MADE + intro, "| status | code | message |", "|---|---|---|", *rows, ""])


def public_errors() -> list[type[errors.BillhookError]]:
    """All that a caller can meet: classes with a code of their own, the operator's Refusal left out."""
    kinds = {kind for kind in _subclasses(errors.BillhookError) if "code" in vars(kind)} | {errors.BillhookError}
    return sorted(kinds - {errors.Refusal}, key=lambda kind: (kind.status, kind.code))


def _subclasses(kind: type[errors.BillhookError]) -> Iterator[type[errors.BillhookError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def commands_page() -> str:
    intro = (
        "# Commands\n\nEvery command but the servers takes `--json` and then prints one JSON document, and that only.\n"
        "Exit status: 0 done, 1 refused or failed, 2 wrong usage. `--help` shows the options of each.\n"
    )
    rows = [f"| `billhook {name}` | {' '.join(help.split())} |" for name, help in commands()]
    return "\n".join([MADE + intro, "| command | what it does |", "|---|---|", *rows, ""])


def commands() -> Iterator[tuple[str, str]]:
    yield from _commands(typer.main.get_command(cli.app), "")


def _commands(command: Any, name: str) -> Iterator[tuple[str, str]]:
    if not hasattr(command, "commands"):
        yield name.strip(), command.help or ""
        return
    for each, inner in command.commands.items():
        yield from _commands(inner, f"{name} {each}")


def scopes_page() -> str:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in SCOPES.items()]
    intro = "# Scopes\n\nWhat a client may do. A token holds all of them, or those that were asked for.\n"
    return "\n".join([MADE + intro, "| scope | meaning |", "|---|---|", *rows, ""])


PAGES = {
    "settings.md": settings_page,
    "errors.md": errors_page,
    "commands.md": commands_page,
    "scopes.md": scopes_page,
}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (FOLDER / name).write_text(render())
