"""billhook backup"""

from pathlib import Path
from typing import Annotated

import typer

from billhook.cli.output import Json, show
from billhook.errors import Refusal
from billhook.settings import read_settings
from billhook.storage.backup import back_up

File = Annotated[Path, typer.Argument(help="A new file; the master key is not in it.")]


def backup(file: File, as_json: Json = False) -> None:
    """Copy the SQLite database to a new file, also while it is served. PostgreSQL has pg_dump for this."""
    location = read_settings().database_location
    scheme, _, place = location.partition("://")
    if scheme.split("+")[0] != "sqlite":
        raise Refusal("`billhook backup` copies a SQLite database; for PostgreSQL use pg_dump")
    size = back_up(Path(place.removeprefix("/")), file)
    text = f"{file} has the database ({size} bytes). Keep the master key with it, in another place."
    show({"file": str(file), "bytes": size}, text=text, as_json=as_json)
