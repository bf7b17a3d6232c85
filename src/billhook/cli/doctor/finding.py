"""What the doctor says: one finding for each check, and for whatever is not well, what to do about it."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from billhook.errors import BillhookError, Unavailable

FEW = 3  # names that are read aloud; of more only the number is told
UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


class State(StrEnum):
    WELL = "well"
    NOTICE = "notice"  # somebody should know, and the installation works
    PROBLEM = "problem"  # the installation does not do what it is there for, or soon will not


@dataclass(frozen=True)
class Finding:
    check: str
    state: State
    message: str
    fix: str | None = None  # one sentence, with the command or the setting


def well(check: str, message: str) -> Finding:
    return Finding(check, State.WELL, message)


def notice(check: str, message: str, *, fix: str) -> Finding:
    return Finding(check, State.NOTICE, message, fix)


def problem(check: str, message: str, *, fix: str) -> Finding:
    return Finding(check, State.PROBLEM, message, fix)


async def attempt(check: str, looking: Awaitable[Finding], *, fix: str) -> Finding:
    """The finding, or that it could not be looked at, for which `fix` is the remedy."""
    try:
        return await looking
    except Unavailable as error:
        return problem(check, f"no answer ({error.detail})", fix=fix)
    except BillhookError as error:
        return problem(check, f"{error.message} ({error.detail})" if error.detail else error.message, fix=fix)


def named(names: Sequence[str], *, most: int = FEW) -> str:
    """`a, b, c and more`"""
    return ", ".join(names[:most]) + (" and more" if len(names) > most else "")


def several(count: int, one: str, many: str, *, most: int | None = None) -> str:
    """`1 group`, `2 groups`, `more than 10 groups`"""
    if most is not None and count > most:
        return f"more than {most} {many}"
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


def spoken(duration: timedelta | float) -> str:
    """`3 hours`: whole units, the largest that there is one of. A number is of seconds."""
    seconds = int(duration.total_seconds() if isinstance(duration, timedelta) else duration)
    unit, size = next((each for each in UNITS if seconds >= each[1]), UNITS[-1])
    return several(seconds // size, unit, f"{unit}s")
