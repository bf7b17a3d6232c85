"""Ways in and out: the set-up link, invitations, sign-in and sign-out."""

import math
import time

from starlette.responses import Response

from billhook.accounts import invitations, sessions
from billhook.accounts.passwords import hash_aside
from billhook.accounts.signin import REFUSED, Attempt, Entrant
from billhook.accounts.users import still_has
from billhook.console.cookies import KNOWN, SESSION, VISIT
from billhook.console.forms import Mistakes, wrong
from billhook.console.held import Held, held_in, inside
from billhook.console.pages import spell_count
from billhook.console.visit import SignedIn, Visit
from billhook.errors import BillhookError, InvalidParameters, InvitationNotFound, RateLimited, UserConflict

START = "/settings/notifications"  # where people begin


async def show_sign_in(visit: Visit) -> Response:
    return visit.render("sign_in.html", email="", next=inside(visit.request.query_params.get("next", "")), held=None)


async def sign_in(visit: Visit) -> Response:
    console, form = visit.console, visit.form
    known = KNOWN.read(visit.request, console)
    attempt = Attempt(form["email"], form["password"], visit.address, known)
    try:
        entrant = await console.doorkeeper.sign_in(console.db, attempt, now=time.monotonic())
        return await _enter(visit, entrant, inside(form["next"]) or START, held=held_in(form))
    except (InvalidParameters, RateLimited) as error:
        mistakes = Mistakes(_until_when(error) if isinstance(error, RateLimited) else error)
        typed = {"email": form["email"], "next": inside(form["next"]), "held": held_in(form)}
        response = visit.render("sign_in.html", status=error.status, mistakes=mistakes, **typed)
        response.headers.update(error.headers)
        return response


def _until_when(error: RateLimited) -> BillhookError:
    """The same, with how long one has to wait."""
    minutes = math.ceil(error.retry_after_seconds / 60)
    return BillhookError(f"too many failed attempts; try again in {spell_count(minutes, 'minute')}")


async def sign_out(visit: SignedIn) -> Response:
    async with visit.console.db.transaction() as tx:
        await sessions.end(tx, visit.user.id, visit.session.id)
    response = visit.go("/sign-in", done="signed-out")
    SESSION.clear(response, visit.console)
    return response


async def show_set_up(visit: Visit) -> Response:
    async with visit.console.db.reading() as tx:
        if not await invitations.may_set_up(tx, visit.console.vault, _token(visit)):
            raise InvitationNotFound()
    return visit.render("set_up.html", email="", mistakes=Mistakes())


async def set_up(visit: Visit) -> Response:
    console, form = visit.console, visit.form
    async with console.db.reading() as tx:  # before any work is done for a stranger
        if not await invitations.may_set_up(tx, console.vault, _token(visit)):
            raise InvitationNotFound()
    try:
        hashed = await _new_password(visit)
        async with console.db.transaction() as tx:
            user = await invitations.set_up(
                tx, console.vault, _token(visit), email=form["email"], password_hash=hashed, now=visit.now
            )
    except (InvalidParameters, UserConflict) as error:
        return _again(visit, "set_up.html", error, email=form["email"])
    return await _enter(visit, Entrant(user, hashed), START)


async def show_invitation(visit: Visit) -> Response:
    async with visit.console.db.reading() as tx:
        found = await invitations.find_invitation(tx, _token(visit), now=visit.now)
    return visit.render("invitation.html", invitation=found, mistakes=Mistakes())


async def accept_invitation(visit: Visit) -> Response:
    console = visit.console
    async with console.db.reading() as tx:
        found = await invitations.find_invitation(tx, _token(visit), now=visit.now)
    try:
        hashed = await _new_password(visit)
        async with console.db.transaction() as tx:
            user = await invitations.accept_invitation(tx, _token(visit), password_hash=hashed, now=visit.now)
    except (InvalidParameters, UserConflict) as error:
        return _again(visit, "invitation.html", error, invitation=found)
    return await _enter(visit, Entrant(user, hashed), START)


async def _enter(visit: Visit, entrant: Entrant, path: str, *, held: Held | None = None) -> Response:
    """A new session, whatever this browser had before; unless the password was changed in this very moment."""
    console, agent, user = visit.console, visit.request.headers.get("user-agent", ""), entrant.user
    before = SESSION.read(visit.request, console)
    async with console.db.transaction() as tx:
        if not await still_has(tx, user, entrant.password_hash):
            raise wrong("password", REFUSED)
        if before and (found := await sessions.find(tx, before, now=visit.now)):
            await sessions.end(tx, found[1].id, found[0].id)
        token = await sessions.begin(tx, user, address=visit.address, agent=agent, now=visit.now)
        entered = await sessions.find(tx, token, now=visit.now)
    response = visit.go(path)
    if held is not None and entered is not None:
        here = SignedIn(visit.request, console, token, user=user, session=entered[0])
        response = here.render("held.html", held=held, is_new=True)
    SESSION.write(response, console, token)
    VISIT.clear(response, console)
    KNOWN.write(response, console, console.doorkeeper.known_browser(user.id))
    return response


async def _new_password(visit: Visit) -> str:
    """The hash of the password that was typed twice."""
    password = visit.form["password"]
    if password != visit.form["password_again"]:
        raise wrong("password_again", "is not the same as the password above")
    return await hash_aside(password)


def _again(visit: Visit, template: str, error: BillhookError, **values: object) -> Response:
    return visit.render(template, status=error.status, mistakes=Mistakes(error), **values)


def _token(visit: Visit) -> str:
    return str(visit.request.path_params["token"])
