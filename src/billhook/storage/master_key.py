"""Where the master key comes from: the setting, or a file of mode 0600 that is made once."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from billhook.errors import Refusal
from billhook.settings import Settings

SHORTEST = 32  # characters; 32 random base64 characters are 192 bits


def find_master_key(settings: Settings) -> str | None:
    """The master key as set, or None when there is neither a setting nor a file."""
    if given := settings.master_key.get_secret_value().strip():
        return _long_enough(given, source="BILLHOOK_MASTER_KEY")
    try:
        return _long_enough(settings.master_key_file.read_text().strip(), source=str(settings.master_key_file))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"cannot read the master key in {settings.master_key_file}: {error}") from None


def create_master_key(path: Path) -> str:
    """Make the file, whole or not at all; when another process was faster, its key is the key."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        _write(draft, secrets.token_urlsafe(32) + "\n")
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
        _keep(path.parent)
        return path.read_text().strip()
    except OSError as error:
        raise Refusal(f"cannot make the master key {path}: {error.strerror}") from None


def _keep(folder: Path) -> None:
    """A new name in a folder survives a power cut only after this; without its key a database is lost."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _long_enough(key: str, *, source: str) -> str:
    if len(key) < SHORTEST:
        raise Refusal(
            f"{source}: the master key must have at least {SHORTEST} characters; `openssl rand -base64 32` makes one"
        )
    return key
