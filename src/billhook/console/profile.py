"""One's own profile: password, sessions, and how the console looks."""

import time

from starlette.responses import Response

from billhook.accounts import sessions, users
from billhook.accounts.passwords import hash_aside
from billhook.accounts.users import Theme
from billhook.console.forms import Mistakes, wrong
from billhook.console.visit import SignedIn
from billhook.errors import InvalidParameters, RateLimited


async def show_profile(visit: SignedIn) -> Response:
    return await _profile(visit, Mistakes())


async def _profile(visit: SignedIn, mistakes: Mistakes, *, status: int = 200) -> Response:
    async with visit.console.db.reading() as tx:
        theirs = await sessions.list_sessions(tx, visit.user.id, now=visit.now)
    return visit.render(
        "profile.html", status=status, sessions=theirs, this=visit.session.id, themes=Theme, mistakes=mistakes
    )


async def change_password(visit: SignedIn) -> Response:
    try:
        await _must_know_password(visit)
        if visit.form["password"] != visit.form["password_again"]:
            raise wrong("password_again", "is not the same as the new password above")
        hashed = await hash_aside(visit.form["password"])
    except (InvalidParameters, RateLimited) as error:
        response = await _profile(visit, Mistakes(error), status=error.status)
        response.headers.update(error.headers)
        return response
    async with visit.console.db.transaction() as tx:
        await users.change_password(tx, visit.user, hashed, actor=visit.actor, now=visit.now)
        await sessions.end_all(tx, visit.user.id, but=visit.session.id)
    return visit.go("/settings/profile", done="password")


async def _must_know_password(visit: SignedIn) -> None:
    console, given = visit.console, visit.form["current_password"]
    if not await console.doorkeeper.confirm(console.db, visit.user, given, now=time.monotonic()):
        raise wrong("current_password", "is not your password")


async def end_session(visit: SignedIn) -> Response:
    async with visit.console.db.transaction() as tx:
        await sessions.end(tx, visit.user.id, str(visit.request.path_params["session_id"]))
    return visit.go("/settings/profile", done="session-ended")


async def end_other_sessions(visit: SignedIn) -> Response:
    async with visit.console.db.transaction() as tx:
        await sessions.end_all(tx, visit.user.id, but=visit.session.id)
    return visit.go("/settings/profile", done="sessions-ended")


async def change_theme(visit: SignedIn) -> Response:
    if visit.form["theme"] not in set(Theme):
        return await _profile(visit, Mistakes(wrong("theme", f"must be one of {', '.join(Theme)}")), status=400)
    async with visit.console.db.transaction() as tx:
        await users.change_theme(tx, visit.user, Theme(visit.form["theme"]))
    return visit.go("/settings/profile", done="theme")
