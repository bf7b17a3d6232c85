"""A request by somebody in a browser: who it is, what they may do, and how they are answered."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from secrets import token_urlsafe
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from billhook.accounts import sessions
from billhook.accounts.audit import Actor
from billhook.accounts.sessions import SEEN_EVERY, Session
from billhook.accounts.users import Role, User
from billhook.auth.context import address_of
from billhook.auth.manage import Author
from billhook.console.context import Console, console_of
from billhook.console.cookies import SESSION, VISIT
from billhook.console.forms import (
    NOT_OURS,
    TOKEN_FIELD,
    Form,
    form_token,
    has_token,
    is_from_here,
    is_surely_from_here,
    must_be_ours,
    read_form,
)
from billhook.console.held import Held, came_from, hold
from billhook.console.pages import page_response, with_headers
from billhook.errors import Forbidden

READING = ("GET", "HEAD")
NOT_ALLOWED = "you may look at this, but only an admin may change it"
SIGNED_OUT = "you are no longer signed in; do so in another tab, then press again: what you typed here stays"
PRESS_AGAIN = "you have signed in anew since this page was opened; press again: what you typed here is not lost"


@dataclass(frozen=True)
class Visit:
    """Anybody's, also of who has not signed in."""

    request: Request
    console: Console
    cookie: str = field(repr=False)  # what this browser's forms are known by
    form: Form = field(default_factory=Form)
    user: User | None = None

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    @property
    def address(self) -> str:
        return address_of(self.request)

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        token = form_token(self.console, self.cookie)
        response = page_response(
            self.request, template, status=status, visit=self, user=self.user, form_token=token, **values
        )
        if self.user is None:
            VISIT.write(response, self.console, self.cookie)
        return response

    def go(self, path: str, *, done: str = "") -> Response:
        """To another page of the console, which then says what was done (see `pages.DONE`)."""
        mark = f"{'&' if '?' in path else '?'}done={done}" if done else ""
        return with_headers(RedirectResponse(self.console.home + path + mark, status_code=303), self.console)


@dataclass(frozen=True, kw_only=True)
class SignedIn(Visit):
    user: User
    session: Session

    @property
    def organization_id(self) -> str:
        return self.user.organization_id

    @property
    def may_change(self) -> bool:
        return self.user.role is Role.ADMIN

    @property
    def actor(self) -> Actor:
        return actor_of(self.user)

    @property
    def author(self) -> Author:
        return Author(self.actor, self.organization_id)


def actor_of(user: User) -> Actor:
    return Actor(f"user:{user.id}", user.organization_id)


Endpoint = Callable[[Request], Awaitable[Response]]


def anyone(handler: Callable[[Visit], Awaitable[Response]]) -> Endpoint:
    """A page for who has not signed in."""

    async def endpoint(request: Request) -> Response:
        console = console_of(request)
        cookie = VISIT.read(request, console) or token_urlsafe(32)
        form = await _form_of(request, console, VISIT.read(request, console))
        return await handler(Visit(request, console, cookie, form))

    return endpoint


def viewer(handler: Callable[[SignedIn], Awaitable[Response]]) -> Endpoint:
    """A page, or an action on what is one's own, for everybody who has signed in."""
    return _signed_in(handler, may=lambda visit: True)


def admin(handler: Callable[[SignedIn], Awaitable[Response]]) -> Endpoint:
    """A page or an action that changes what belongs to the organization."""
    return _signed_in(handler, may=lambda visit: visit.may_change)


def _signed_in(handler: Callable[[SignedIn], Awaitable[Response]], *, may: Callable[[SignedIn], bool]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        console = console_of(request)
        token = SESSION.read(request, console)
        found = await _find_session(request, console, token)
        if found is None:
            return await _ask_to_sign_in(request, console)
        visit = SignedIn(request, console, token, user=found[1], session=found[0])
        request.state.visit = visit  # an error is then told in their dress
        if request.method not in READING:
            visit = replace(visit, form=await read_form(request))
            if not is_from_here(request, console) or not has_token(console, visit.form, token):
                return _offer_again(visit)
        if not may(visit):
            raise Forbidden(NOT_ALLOWED)
        return await handler(visit)

    return endpoint


async def _form_of(request: Request, console: Console, cookie: str) -> Form:
    """What was sent, which must have been made by a page that we gave this browser."""
    if request.method in READING:
        return Form()
    form = await read_form(request)
    must_be_ours(request, console, form, cookie)
    return form


def _offer_again(visit: SignedIn) -> Response:
    """Of a page that was opened before they signed in anew: nothing is done with it until they say so."""
    held = _held(visit.request, visit.console, visit.form)
    if held is None:
        raise Forbidden(NOT_OURS)
    if _is_part(visit.request):
        response = visit.render("error_part.html", status=403, message=PRESS_AGAIN, part=_part(visit.request))
        response.headers["X-Form-Token"] = form_token(visit.console, visit.cookie)
        return response
    return visit.render("held.html", status=403, held=held, is_new=False)


async def _ask_to_sign_in(request: Request, console: Console) -> Response:
    """And back to where they wanted to go; or on with what they had typed."""
    if request.method in READING:
        wanted = request.url.path.removeprefix(console.home) + (f"?{request.url.query}" if request.url.query else "")
        return _to_sign_in(console, wanted)
    if _is_part(request):
        raise Forbidden(SIGNED_OUT)
    held = _held(request, console, await read_form(request)) if is_surely_from_here(request, console) else None
    if held is None:
        return _to_sign_in(console, came_from(request, console))
    visit = Visit(request, console, VISIT.read(request, console) or token_urlsafe(32))
    return visit.render("sign_in.html", status=403, email="", next=held.back, held=held)


def _held(request: Request, console: Console, form: Form) -> Held | None:
    """Only what a form of ours had in it."""
    is_ours = TOKEN_FIELD in form and is_surely_from_here(request, console)
    return hold(request, console, form) if is_ours else None


def _to_sign_in(console: Console, wanted: str) -> Response:
    back = f"?next={quote(wanted, safe='')}" if wanted not in ("", "/") else ""
    return with_headers(RedirectResponse(f"{console.home}/sign-in{back}", status_code=303), console)


def _is_part(request: Request) -> bool:
    return "x-fragment" in request.headers


def _part(request: Request) -> str:
    return request.headers["x-fragment"]


async def _find_session(request: Request, console: Console, token: str) -> tuple[Session, User] | None:
    now = datetime.now(UTC)
    if not token:
        return None
    async with console.db.reading() as tx:
        found = await sessions.find(tx, token, now=now)
    is_by_itself = request.method in READING and _is_part(request)  # a page that keeps itself up to date is no visit
    if found is not None and now - found[0].seen_at > SEEN_EVERY and not is_by_itself:
        async with console.db.transaction() as tx:
            await sessions.mark_seen(tx, found[0], address=address_of(request), now=now)
    return found
