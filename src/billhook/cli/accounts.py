"""billhook user …, billhook organization … and billhook audit"""

import sys
from dataclasses import asdict, replace
from typing import Annotated

import typer

from billhook.accounts.audit import Actor, Entry, note, read_trail
from billhook.accounts.installation import Installation
from billhook.accounts.organizations import Organization, create_organization, find_organization, list_organizations
from billhook.accounts.passwords import hash_password
from billhook.accounts.users import Role, User, create_user
from billhook.cli.clients import Organization as OrganizationOption
from billhook.cli.output import Json, show, table
from billhook.cli.session import now, on_installation, operator
from billhook.errors import Refusal

users = typer.Typer(help="People who sign in to the console.", no_args_is_help=True)
organizations = typer.Typer(help="Customers; everything belongs to exactly one.", no_args_is_help=True)


@users.callback()
def _users() -> None:
    """Keeps `create` a subcommand while it is the only one."""


@users.command("create")
def create(
    email: Annotated[str, typer.Option()],
    role: Annotated[Role, typer.Option(help="An admin may change, a viewer may look.")] = Role.ADMIN,
    organization: OrganizationOption = None,
    as_json: Json = False,
) -> None:
    """Add a user. The password is asked for, or read from standard input."""
    password_hash = hash_password(_read_password())

    async def work(installation: Installation) -> User:
        async with installation.db.transaction() as tx:
            owner = await find_organization(tx, organization)
            actor = operator_of(owner.id)
            return await create_user(
                tx, owner.id, email=email, password_hash=password_hash, role=role, actor=actor, now=now()
            )

    user = on_installation(work)
    show(asdict(user), text=f"Created {user.role} {user.email} ({user.id}).", as_json=as_json)


@organizations.command("create")
def create_one(name: Annotated[str, typer.Argument(metavar="NAME")], as_json: Json = False) -> None:
    """Add an organization."""

    async def work(installation: Installation) -> Organization:
        async with installation.db.transaction() as tx:
            made = await create_organization(tx, name, now=now())
            await note(tx, operator_of(made.id), "organization.created", subject=made.id, now=now(), name=made.name)
            return made

    made = on_installation(work)
    show(asdict(made), text=f"Created organization {made.name} ({made.id}).", as_json=as_json)


@organizations.command("list")
def list_all(as_json: Json = False) -> None:
    """All organizations, the oldest first."""

    async def work(installation: Installation) -> list[Organization]:
        async with installation.db.reading() as tx:
            return await list_organizations(tx)

    found = on_installation(work)
    text = table(["ID", "NAME", "CREATED"], [(item.id, item.name, item.created_at) for item in found])
    show([asdict(item) for item in found], text=text, as_json=as_json)


def audit(
    subject: Annotated[str | None, typer.Option(metavar="ID", help="Only what happened to this.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 50,
    as_json: Json = False,
) -> None:
    """Who created, changed, rotated or revoked what, and when; the newest first."""

    async def work(installation: Installation) -> list[Entry]:
        async with installation.db.reading() as tx:
            return await read_trail(tx, subject=subject, limit=limit)

    found = on_installation(work)
    rows = [(entry.at, entry.actor, entry.action, entry.subject) for entry in found]
    show([asdict(entry) for entry in found], text=table(["AT", "WHO", "DID", "TO"], rows), as_json=as_json)


def operator_of(organization_id: str) -> Actor:
    return replace(operator(), organization_id=organization_id)


def _read_password() -> str:
    if sys.stdin.isatty():
        answer: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return answer
    password = sys.stdin.readline(2000).rstrip("\r\n")
    if not password:
        raise Refusal("no password: write it to standard input, on one line")
    return password
