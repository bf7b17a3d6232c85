"""A request as a curl command for any POSIX shell; a value that is masked stands as a variable, to be set before."""

import re
from collections.abc import Iterable
from itertools import count
from shlex import quote

from billhook.outbound.request import Outgoing
from billhook.providers.kinds import MASK

LINE_END = " \\\n  "
PLAIN = re.compile(r"[A-Za-z0-9-]+")  # within double quotes, no shell sees anything in these
PREFIX = "HEADER_"  # so that no header of any name can mean a variable of the shell's own, such as PATH


def command(request: Outgoing) -> str:
    named = iter(variables(request))
    first = f"curl -i{_as_written(request.url)} -X {quote(request.method)} {quote(request.url)}"
    headers = [_masked(name, next(named)) if value == MASK else _plain(name, value) for name, value in request.headers]
    body = [] if request.body is None else [f"--data-raw {quote(request.body.decode())}"]
    return LINE_END.join([first, *(f"-H {header}" for header in headers), *body])


def variables(request: Outgoing) -> list[str]:
    """The variables that must be set, in the order of their headers."""
    named: list[str] = []
    for name in (name for name, value in request.headers if value == MASK):
        named.append(_free(PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper()), named))
    return named


def _free(name: str, taken: Iterable[str]) -> str:
    further = (f"{name}_{number}" for number in count(2))
    return name if name not in taken else next(each for each in further if each not in taken)


def _masked(name: str, variable: str) -> str:
    """The shell refuses to run the command while the variable is empty; curl would leave the header out."""
    value = f"${{{variable}:?}}"
    return f'"{name}: {value}"' if PLAIN.fullmatch(name) else quote(f"{name}: ") + f'"{value}"'


def _plain(name: str, value: str) -> str:
    return quote(f"{name}: {value}" if value else f"{name};")  # to curl, "name:" means: leave this header out


def _as_written(url: str) -> str:
    """What keeps curl from reading patterns into the URL, and from tidying its path."""
    return (" --globoff" if re.search(r"[][{}]", url) else "") + (" --path-as-is" if "/." in url else "")
