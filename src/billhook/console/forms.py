"""Forms as browsers send them: bounded, in UTF-8, and only from our own pages."""

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from billhook.console.context import Console
from billhook.errors import (
    BillhookError,
    ClientConflict,
    ClientNotFound,
    FieldError,
    Forbidden,
    InvalidParameters,
    TooLarge,
)
from billhook.web.requests import header, read_body, require_content_type

LARGEST_FORM = 512 * 1024  # a content of 32 KiB, every byte of it percent-encoded, and all headers
MOST_PASSED = 9_999_999  # bytes that are read and thrown away, so that whoever sent them gets an answer
TOO_MUCH = f"that is more than the {LARGEST_FORM // 1024} KiB that a form may have; go back, and make it shorter"
MOST_FIELDS = 300
NAMED = re.compile(r"\b[a-z]{3}_[0-9a-z]{26} \((.*)\)(?=: )", re.DOTALL)  # an id and its name: people go by the name
TOKEN_FIELD = "form_token"  # noqa: S105 - the name, not the token
NOT_OURS = "this form is too old or was not made by this site; go back, reload the page and try again"


class Form:
    """What was typed, by field; kept to be shown again beside its mistakes."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs = list(pairs)

    def __getitem__(self, name: str) -> str:
        """The last one of that name, or nothing."""
        found = self.all(name)
        return found[-1] if found else ""

    def __contains__(self, name: str) -> bool:
        return any(given == name for given, _ in self.pairs)

    def all(self, name: str) -> list[str]:
        return [value for given, value in self.pairs if given == name]


class Mistakes(Mapping[str, str]):
    """What is wrong, by field; and what is wrong with no field in particular."""

    def __init__(self, error: BillhookError | None = None) -> None:
        found = error.errors if isinstance(error, InvalidParameters) else ()
        self._by_field = {each.field: NAMED.sub(r"\1", each.message) for each in reversed(found)}
        self.message = said(error) if error is not None and not found else ""

    def __getitem__(self, field: str) -> str:
        return self._by_field[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_field)

    def __len__(self) -> int:
        return len(self._by_field)

    def __bool__(self) -> bool:
        return bool(self._by_field or self.message)


def said(error: BillhookError) -> str:
    """What the API calls a client is an API key here."""
    is_of_key = isinstance(error, ClientConflict | ClientNotFound)
    return error.message.replace("client", "API key") if is_of_key else error.message


async def read_form(request: Request) -> Form:
    if not header(request.scope, b"content-type"):  # nothing was sent
        return Form()
    require_content_type(request.scope, "application/x-www-form-urlencoded")
    body = await _whole_body(request)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise InvalidParameters("the form cannot be read") from None
    if any("\0" in value for _, value in pairs):
        raise InvalidParameters("a field must not contain a NUL")
    return Form((name, value.replace("\r\n", "\n")) for name, value in pairs)


async def _whole_body(request: Request) -> bytes:
    try:
        return await read_body(request.scope, request.receive, limit=LARGEST_FORM)
    except TooLarge:
        await _let_it_pass(request)
        raise TooLarge(TOO_MUCH) from None


async def _let_it_pass(request: Request) -> None:
    """A browser reads no answer before it has sent all it has, unless that has no end."""
    seen, more = 0, len(header(request.scope, b"content-length")) <= len(str(MOST_PASSED))
    while more and seen <= MOST_PASSED:
        message = await request.receive()
        seen += len(message.get("body", b""))
        more = message.get("more_body", False)


def form_token(console: Console, cookie: str) -> str:
    """What a form of this browser must carry; another site cannot know it."""
    return hmac.new(console.vault.derive("form tokens"), cookie.encode(), sha256).hexdigest()


def must_be_ours(request: Request, console: Console, form: Form, cookie: str) -> None:
    """Refuse what another site made this browser send: it can neither say where it comes from nor know the token."""
    if not is_from_here(request, console) or not has_token(console, form, cookie):
        raise Forbidden(NOT_OURS)


def has_token(console: Console, form: Form, cookie: str) -> bool:
    return _equal(form_token(console, cookie), form[TOKEN_FIELD])


def is_from_here(request: Request, console: Console) -> bool:
    """Whether nothing that the browser says is against it."""
    site, origin = request.headers.get("sec-fetch-site", "none"), request.headers.get("origin")
    ours = {urlsplit(url)[:2] for url in (str(request.url), console.settings.base_url)}
    return site in ("same-origin", "none") and (origin is None or _origin(origin) in ours)


def is_surely_from_here(request: Request, console: Console) -> bool:
    """Whether the browser says so itself, as all of today's do of a form that is posted."""
    return "origin" in request.headers and is_from_here(request, console)


def _origin(text: str) -> tuple[str, str] | None:
    try:
        return urlsplit(text)[:2]
    except ValueError:
        return None


def _equal(right: str, given: str) -> bool:
    return hmac.compare_digest(right.encode(), given.encode())


def wrong(field: str, message: str) -> InvalidParameters:
    return InvalidParameters(errors=[FieldError(field, message)])
