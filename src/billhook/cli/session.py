"""How a command reaches the installation: opened for the one thing it does, and closed again."""

import asyncio
import os
import pwd
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from billhook import log
from billhook.accounts.audit import Actor
from billhook.accounts.installation import Installation, open_installation
from billhook.auth.manage import Author
from billhook.settings import read_settings

Result = TypeVar("Result")


def on_installation(work: Callable[[Installation], Awaitable[Result]]) -> Result:
    settings = read_settings()
    log.configure("error", settings.log_format)

    async def run() -> Result:
        async with open_installation(settings) as installation:
            return await work(installation)

    return asyncio.run(run())


def operator() -> Actor:
    """The person at the command line, by the name the system knows them under."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    return Actor(f"cli:{name}")


def operator_author() -> Author:
    return Author(operator())


def now() -> datetime:
    return datetime.now(UTC)
