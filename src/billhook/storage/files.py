"""What is written must survive a power cut."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Of a file its content, of a folder the names in it."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
