"""Where the master key comes from: the setting, or a file of mode 0600 that is made once."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from billhook.errors import Refusal
from billhook.settings import Settings
from billhook.storage.files import sync

SHORTEST = 32  # characters; 32 random base64 characters are 192 bits


def find_master_key(settings: Settings) -> str | None:
    """The master key as set, or None when there is neither a setting nor a file."""
    if given := settings.master_key.get_secret_value().strip():
        return _long_enough(given, source="BILLHOOK_MASTER_KEY")
    return _read(settings.master_key_file)


def _read(path: Path) -> str | None:
    try:
        return _long_enough(path.read_text().strip(), source=str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"cannot read the master key in {path}: {error}") from None


def find_other_master_keys(settings: Settings) -> list[str]:
    """Those that are here beside it while it is rotated, the next one first. A key in a file has them in files."""
    if settings.master_key.get_secret_value().strip():
        other = settings.other_master_key.get_secret_value().strip()
        return [_long_enough(other, source="BILLHOOK_OTHER_MASTER_KEY")] if other else []
    found = [_read(path) for path in (next_file(settings), previous_file(settings))]
    return [key for key in found if key is not None]


def next_file(settings: Settings) -> Path:
    return settings.master_key_file.with_suffix(".key.next")


def previous_file(settings: Settings) -> Path:
    return settings.master_key_file.with_suffix(".key.previous")


def move_on(settings: Settings) -> None:
    """The next key becomes the key, and the key the previous one. Whenever it is killed, all are still there."""
    if not next_file(settings).exists():
        return
    try:
        if settings.master_key_file.exists():
            os.replace(settings.master_key_file, previous_file(settings))
        os.replace(next_file(settings), settings.master_key_file)
        sync(settings.master_key_file.parent)
    except OSError as error:
        raise Refusal(f"cannot move the master key {settings.master_key_file}: {error.strerror}") from None


def create_master_key(path: Path) -> str:
    """Make the file, whole or not at all; when another process was faster, its key is the key."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        _write(draft, secrets.token_urlsafe(32) + "\n")
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
        sync(path.parent)  # without its key a database is lost
        return path.read_text().strip()
    except OSError as error:
        raise Refusal(f"cannot make the master key {path}: {error.strerror}") from None


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
