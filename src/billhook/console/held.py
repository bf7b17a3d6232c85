"""A form that came when its session had ended: kept in the pages themselves, so that nothing typed is lost.

It is kept only when the browser says that a page of ours sent it, and it is sent again only when a person says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request

from billhook.console.context import Console
from billhook.console.forms import LARGEST_FORM, MOST_FIELDS, TOKEN_FIELD, Form

PREFIX = "held:"  # of its fields, within the form that signs in
ACTION, BACK = "held-action", "held-back"
MOST_HELD_FIELDS = MOST_FIELDS - 10  # the fields of the form that signs in come along
LARGEST_HELD = LARGEST_FORM - 16 * 1024  # and so do their prefixes
SPARED = "password"  # no page of ours has one in it
UNSEEN = ("id", "key", "do", "newest", "provider_id", "header_kept", "header_value")  # of no use to a reader, or secret


@dataclass(frozen=True)
class Held:
    action: str  # where it was sent, within the console
    back: str  # the page that it was typed into, within the console
    pairs: Sequence[tuple[str, str]]

    @property
    def typed(self) -> list[tuple[str, str]]:
        """What its reader knows it by."""
        return [
            (name.replace("_", " ").capitalize(), value)
            for name, value in self.pairs
            if value.strip() and name not in UNSEEN
        ]

    @property
    def fields(self) -> list[tuple[str, str]]:
        """As fields of the form that signs in."""
        return [(ACTION, self.action), (BACK, self.back), *((PREFIX + name, value) for name, value in self.pairs)]


def hold(request: Request, console: Console, form: Form) -> Held | None:
    """What was sent, or nothing where it cannot or must not be kept."""
    pairs = [(name, value) for name, value in form.pairs if name != TOKEN_FIELD]
    is_much = len(pairs) > MOST_HELD_FIELDS or len(urlencode(pairs)) > LARGEST_HELD
    if is_much or any(SPARED in name for name, _ in pairs):
        return None
    return Held(request.url.path.removeprefix(console.home), came_from(request, console), pairs)


def held_in(form: Form) -> Held | None:
    """What the form that signs in brings along."""
    pairs = [(name.removeprefix(PREFIX), value) for name, value in form.pairs if name.startswith(PREFIX)]
    action = inside(form[ACTION])
    return Held(action, inside(form[BACK]), pairs) if action else None


def came_from(request: Request, console: Console) -> str:
    """The page of ours that the browser was on, if it says so."""
    given = request.headers.get("referer", "")
    try:
        page = urlsplit(given)
    except ValueError:
        return ""
    path = page.path.removeprefix(console.home) + (f"?{page.query}" if page.query else "")
    return inside(path) if page.path.startswith(f"{console.home}/") else ""


def inside(path: str) -> str:
    """Only to a page of ours: an address that came with a link may lead anywhere."""
    is_ours = path.startswith("/") and not path.startswith("//") and path.isprintable() and "\\" not in path
    return path if is_ours else ""
