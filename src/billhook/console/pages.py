"""Templates, what they can use, and the headers that every page carries."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from billhook import __version__
from billhook.auth.model import spell_lifespan
from billhook.console.context import Console, console_of
from billhook.console.forms import LARGEST_FORM
from billhook.console.reasons import reason_of, spell_status
from billhook.console.timeline import phases
from billhook.errors import NotFound

HERE = Path(__file__).parent
STATIC = HERE / "static"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # all that Unicode has for it
YEAR_SECONDS = 365 * 24 * 3600

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ONLY_HTTPS = {
    "Strict-Transport-Security": f"max-age={YEAR_SECONDS}"
}  # this host alone: others are not ours to speak for

# What a page says after something was done; the address names one of these, never a text.
DONE = {
    "saved": "Saved.",
    "created": "Created.",
    "key-created-before": "This key was created already. Its secret was shown then; if it is lost, rotate.",
    "group-created": "The group is there. Add a provider to it: the receiver that shall be told.",
    "provider-created": "Saved. The provider is available inside its group.",
    "rotated": "There is a new signing secret. For 24 hours the one before signs as well.",
    "deleted": "Deleted.",
    "cancelled": "Deleted. What was still queued for it is cancelled, and shown as cancelled.",
    "renamed": "Renamed.",
    "paused": "Paused. What is sent meanwhile is held for 7 days.",
    "resumed": "Resumed. What was held is on its way.",
    "revoked": "Revoked. Its secrets and tokens no longer work.",
    "tokens-revoked": "Tokens issued before this moment no longer work.",
    "secret-revoked": "That secret no longer works.",
    "sent": "Accepted. Its deliveries are below.",
    "redelivering": "Queued again, with a fresh schedule of attempts.",
    "recovering": "Taking up everything that failed since then.",
    "password": "Your password is changed. Other sessions are ended.",
    "session-ended": "That session is ended.",
    "sessions-ended": "All other sessions are ended.",
    "theme": "Saved.",
    "role": "The role is changed.",
    "removed": "Removed.",
    "withdrawn": "The invitation is withdrawn.",
    "signed-out": "You are signed out.",
}


def page_response(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    console = console_of(request)
    html = (
        _environment()
        .get_template(template)
        .render(
            home=console.home,
            largest_form=LARGEST_FORM,
            prefix=console.settings.path_prefix,
            asset=lambda name: f"{console.home}/static/{name}?v={_version(name)}",
            path=request.url.path.removeprefix(console.home),
            query=request.query_params,
            done=DONE.get(request.query_params.get("done", "")),
            token=Markup('<input type="hidden" name="form_token" value="{}">').format(values.get("form_token", "")),
            **{"user": None, "mistakes": {}, **values},
        )
    )
    return with_headers(HTMLResponse(html, status_code=status), console)


async def static(request: Request) -> Response:
    """Our own files, by name; kept by browsers until they change, for their address then changes too."""
    name = str(request.path_params["name"])
    if name not in _static_names():
        raise NotFound("there is no such file")
    headers = {"Cache-Control": f"public, max-age={YEAR_SECONDS}, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(_static(name), media_type=TYPES[Path(name).suffix], headers=headers)


@cache
def _static_names() -> frozenset[str]:
    return frozenset(path.name for path in STATIC.iterdir() if path.suffix in TYPES)


@cache
def _static(name: str) -> bytes:
    return (STATIC / name).read_bytes()


@cache
def _version(name: str) -> str:
    return sha256(_static(name)).hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"moment": moment, "lifespan": spell_lifespan, "count": spell_count, "took": spell_took}
    environment.filters |= {"countdown": countdown, "lasted": spell_lasted, "plain": plain}
    environment.globals |= {"version": __version__}
    environment.globals |= {"phases": phases, "reason_of": reason_of, "spell_status": spell_status}
    return environment


def read_all() -> None:
    """Every template and file, as they are now: an upgrade replaces them under a process that has the old code."""
    for name in _environment().list_templates():
        _environment().get_template(name)
    for name in _static_names():
        _version(name)


def plain(text: str) -> str:
    """Without marks of direction, which would turn around our own words where no <bdi> can end them."""
    return DIRECTIONS.sub("", text)


def moment(at: datetime | int | None, none: str = "never") -> Markup | str:
    """In UTC; a script turns it into the reader's own time, and the exact moment shows on hover."""
    if at is None:
        return none
    if isinstance(at, int):
        at = datetime.fromtimestamp(at / 1000, UTC)
    exact = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shown = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup(f'<time datetime="{exact}" title="{exact}">{shown}</time>')


def countdown(at_ms: int) -> Markup:
    """In UTC; a script turns it into the time that is left."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup(f'<span data-countdown="{exact}" title="{exact}">at {at:%Y-%m-%d %H:%M:%S} UTC</span>')


def spell_count(number: int, one: str, many: str = "") -> Markup:
    """`1 provider`, `1,200 providers`."""
    word = one if number == 1 else many or f"{one}s"
    return escape(f"{number:,} {word}")


def spell_took(milliseconds: float | None) -> str:
    """`0.4 ms`, `12 ms`, `1.25 s`."""
    if milliseconds is None:
        return "–"
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2f} s"
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def spell_lasted(milliseconds: int) -> str:
    """The same for what may take days: `1.25 s`, `12 min`, `3 h`."""
    return spell_took(milliseconds) if milliseconds < 60_000 else spell_wait(timedelta(milliseconds=milliseconds))


def spell_wait(wait: timedelta) -> str:
    seconds = int(wait.total_seconds())
    if seconds < 90:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def with_headers(response: Response, console: Console) -> Response:
    response.headers.update(HEADERS | (ONLY_HTTPS if console.is_secure else {}))
    return response
