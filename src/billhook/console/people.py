"""The users of the organization: invite, change role, remove. For admins."""

from starlette.responses import Response

from billhook.accounts import invitations, sessions, users
from billhook.accounts.users import Role, User
from billhook.console.context import HOME
from billhook.console.forms import Form, Mistakes, wrong
from billhook.console.visit import SignedIn, actor_of
from billhook.errors import BillhookError, InvalidParameters, UserConflict

MOST_SHOWN = 500
ROLES = {
    Role.ADMIN: "may change everything of the organization",
    Role.VIEWER: "may look at everything, and change nothing",
}


async def show_people(visit: SignedIn) -> Response:
    return await _people(visit, Mistakes())


async def _people(
    visit: SignedIn, mistakes: Mistakes, *, status: int = 200, link: str = "", invited: str = ""
) -> Response:
    async with visit.console.db.reading() as tx:
        found = await users.list_users(tx, visit.organization_id, limit=MOST_SHOWN)
        still_open = await invitations.list_invitations(tx, visit.organization_id, now=visit.now)
    return visit.render(
        "people.html",
        status=status,
        people=found,
        invitations=still_open,
        roles=ROLES,
        form=visit.form if mistakes else Form(),
        mistakes=mistakes,
        link=link,
        invited=invited,
    )


async def invite(visit: SignedIn) -> Response:
    """The link is shown this once; whoever opens it first becomes that user."""
    email = visit.form["email"]
    try:
        role = _role(visit)
        async with visit.console.db.transaction() as tx:
            made, token = await invitations.invite(
                tx, visit.organization_id, email=email, role=role, actor=visit.actor, now=visit.now
            )
    except (InvalidParameters, UserConflict) as error:
        return await _people(visit, Mistakes(error), status=error.status)
    link = f"{visit.console.settings.base_url}{HOME}/invitation/{token}"
    return await _people(visit, Mistakes(), link=link, invited=made.email)


async def withdraw_invitation(visit: SignedIn) -> Response:
    invitation_id = str(visit.request.path_params["invitation_id"])
    async with visit.console.db.transaction() as tx:
        await invitations.withdraw(tx, visit.organization_id, invitation_id, actor=visit.actor, now=visit.now)
    return visit.go("/settings/users", done="withdrawn")


async def change_role(visit: SignedIn) -> Response:
    try:
        role = _role(visit)
        async with visit.console.db.transaction() as tx:
            person = await users.get_user(tx, _user_id(visit), visit.organization_id)
            await users.change_role(tx, person, role, actor=visit.actor, now=visit.now)
            if role is not Role.ADMIN:
                await invitations.withdraw_all_by(tx, actor_of(person))
    except (InvalidParameters, UserConflict) as error:
        return await _refused(visit, error)
    is_shut_out = person.id == visit.user.id and role is not Role.ADMIN
    return visit.go("/settings/profile" if is_shut_out else "/settings/users", done="role")


async def remove_user(visit: SignedIn) -> Response:
    try:
        async with visit.console.db.transaction() as tx:
            person: User = await users.get_user(tx, _user_id(visit), visit.organization_id)
            await sessions.end_all(tx, person.id)
            await invitations.withdraw_all_by(tx, actor_of(person))
            await users.remove_user(tx, person, actor=visit.actor, now=visit.now)
    except UserConflict as error:
        return await _refused(visit, error)
    return visit.go("/settings/users", done="removed")


async def _refused(visit: SignedIn, error: BillhookError) -> Response:
    return await _people(visit, Mistakes(error), status=error.status)


def _role(visit: SignedIn) -> Role:
    if visit.form["role"] not in set(Role):
        raise wrong("role", f"must be one of {', '.join(Role)}")
    return Role(visit.form["role"])


def _user_id(visit: SignedIn) -> str:
    return str(visit.request.path_params["user_id"])
