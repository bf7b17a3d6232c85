"""The part of a page that keeps itself up to date: asked for alone, and answered with 304 while nothing has changed."""

from hashlib import sha256
from typing import Any

from sqlalchemy import Row
from starlette.responses import Response

from billhook.console.pages import with_headers
from billhook.console.visit import Visit


def version_of(*seen: object) -> str:
    """Differs whenever what would be shown differs."""
    whole = [tuple(each) if isinstance(each, Row) else each for each in seen]  # the text of a Row is cut short
    return sha256(repr(whole).encode()).hexdigest()[:20]


def is_unchanged(visit: Visit, version: str) -> bool:
    asked = visit.request.headers
    return is_part(visit) and asked.get("if-none-match") == f'"{version}"'


def is_part(visit: Visit) -> bool:
    return "x-fragment" in visit.request.headers


def not_modified(visit: Visit, version: str) -> Response:
    return with_headers(Response(status_code=304, headers={"ETag": f'"{version}"'}), visit.console)


def render(visit: Visit, name: str, version: str, *, status: int = 200, **values: Any) -> Response:
    """The page `name.html`, or of it only `name_live.html`, which the page includes."""
    template = f"{name}_live.html" if is_part(visit) else f"{name}.html"
    response = visit.render(template, status=status, etag=version, **values)
    response.headers["ETag"] = f'"{version}"'
    return response
