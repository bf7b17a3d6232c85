"""billhook group …"""

from typing import Annotated

import typer

from billhook.accounts.installation import Installation
from billhook.accounts.organizations import find_organization
from billhook.cli.clients import Organization
from billhook.cli.output import Json, show, table
from billhook.cli.session import now, on_installation, operator_author
from billhook.delivery import control
from billhook.errors import GroupNotFound
from billhook.groups import manage, store
from billhook.groups.model import Group
from billhook.groups.views import group_view
from billhook.storage.database import Transaction

app = typer.Typer(help="Notification groups: whatever is sent to one reaches all its providers.", no_args_is_help=True)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Its id, or its name.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME")], organization: Organization = None, as_json: Json = False
) -> None:
    """Create a group."""

    async def work(installation: Installation) -> Group:
        most = installation.settings.max_groups
        async with installation.db.transaction() as tx:
            owner = await find_organization(tx, organization)
            return await manage.create_group(
                tx, name, organization_id=owner.id, most=most, author=operator_author(), now=now()
            )

    group = on_installation(work)
    text = f"Created group {group.name} ({group.id})."
    show(group_view(group).model_dump(mode="json"), text=text, as_json=as_json)


@app.command("list")
def list_groups(
    organization: Annotated[str | None, typer.Option(metavar="ID", help="Only of this organization.")] = None,
    as_json: Json = False,
) -> None:
    """All groups, the newest first."""

    async def work(installation: Installation) -> list[Group]:
        async with installation.db.reading() as tx:
            if organization is not None:
                await find_organization(tx, organization)
            return await store.list_groups(tx, organization)

    found = on_installation(work)
    rows = [(group.id, group.name, group.created_at) for group in found]
    text = table(["GROUP ID", "NAME", "CREATED"], rows) if rows else "No groups yet."
    show([group_view(group).model_dump(mode="json") for group in found], text=text, as_json=as_json)


@app.command("show")
def show_group(group: GroupName, organization: Organization = None, as_json: Json = False) -> None:
    """One group."""

    async def work(installation: Installation) -> Group:
        async with installation.db.reading() as tx:
            return await find_group(tx, group, organization)

    _show(on_installation(work), as_json=as_json)


@app.command()
def rename(
    group: GroupName,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Give a group another name."""

    async def work(installation: Installation) -> Group:
        async with installation.db.transaction() as tx:
            found = await find_group(tx, group, organization)
            return await manage.rename_group(tx, found.id, name, author=operator_author(), now=now())

    _show(on_installation(work), as_json=as_json)


@app.command()
def delete(group: GroupName, organization: Organization = None, as_json: Json = False) -> None:
    """Delete a group with its providers. What is still queued is cancelled, and shown as cancelled."""

    async def work(installation: Installation) -> tuple[Group, int]:
        async with installation.db.transaction() as tx:
            found = await find_group(tx, group, organization)
            return found, await control.delete_group(tx, found.id, author=operator_author(), now=now())

    gone, cancelled = on_installation(work)
    text = f"Deleted group {gone.name}; {cancelled} queued deliveries are cancelled."
    show({"id": gone.id, "cancelled": cancelled}, text=text, as_json=as_json)


async def find_group(tx: Transaction, text: str, organization: str | None) -> Group:
    """By its id, or by its exact name in that organization (the first one when none is named)."""
    owner = await find_organization(tx, organization)
    found = await store.find_group(tx, text, organization)
    if found is None and text.isprintable():  # what is not cannot be a name, and the database may choke on it
        found = await store.find_group_by_name(tx, text.strip(), owner.id)
    if found is None:
        raise GroupNotFound()
    return found


def _show(group: Group, *, as_json: bool) -> None:
    view = group_view(group)
    show(view.model_dump(mode="json"), text=table(["FIELD", "VALUE"], dict(view).items()), as_json=as_json)
