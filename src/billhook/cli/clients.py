"""billhook client …"""

from typing import Annotated

import typer

from billhook.accounts.installation import Installation
from billhook.accounts.organizations import find_organization
from billhook.auth import manage, model, store
from billhook.auth.manage import ClientSpec
from billhook.auth.model import Client
from billhook.auth.secret import NewSecret
from billhook.auth.views import client_view, new_client_view
from billhook.cli.output import Json, show, table
from billhook.cli.session import now, on_installation, operator_author

app = typer.Typer(help="API keys: register clients, rotate their secrets, revoke them.", no_args_is_help=True)

ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID")]
Organization = Annotated[str | None, typer.Option(metavar="ID", help="Whose; the first organization when left out.")]
Grace = Annotated[str, typer.Option(metavar="|".join(model.GRACES), help="When the old secret ends.")]

SCOPE_HELP = f"What it may do; repeat it, or write several: {', '.join(model.SCOPES)}."


@app.command()
def create(
    name: Annotated[str, typer.Option(help="What people call it.")],
    scope: Annotated[list[str], typer.Option(metavar="SCOPE…", help=SCOPE_HELP)],
    more_scopes: Annotated[list[str] | None, typer.Argument(hidden=True, metavar="[SCOPE]...")] = None,
    description: str = "",
    lifespan: Annotated[str, typer.Option(help="How long its tokens live: 1m to 55m, 1h to 24h.")] = "1h",
    network: Annotated[
        list[str] | None, typer.Option(metavar="CIDR", help="Where it may come from; repeatable.")
    ] = None,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Register a client. Its secret is shown this once."""
    spec = ClientSpec(
        name=name,
        scopes=model.valid_scopes([*scope, *(more_scopes or [])]),
        description=description,
        lifespan=model.parse_lifespan(lifespan),
        networks=model.parse_networks(network or []),
    )

    async def work(installation: Installation) -> tuple[Client, NewSecret]:
        async with installation.db.transaction() as tx:
            owner = await find_organization(tx, organization)
            return await manage.create(
                tx, installation.vault, spec, organization_id=owner.id, author=operator_author(), now=now()
            )

    _show_new(*on_installation(work), as_json=as_json)


@app.command("list")
def list_clients(
    organization: Annotated[str | None, typer.Option(metavar="ID", help="Only of this organization.")] = None,
    as_json: Json = False,
) -> None:
    """All clients, the newest first."""

    async def work(installation: Installation) -> list[Client]:
        async with installation.db.reading() as tx:
            if organization is not None:
                await find_organization(tx, organization)
            return await store.list_clients(tx, organization)

    found = on_installation(work)
    rows = [
        (c.id, c.name, " ".join(c.scopes), model.spell_lifespan(c.lifespan), c.state, c.last_used_at) for c in found
    ]
    text = table(["CLIENT ID", "NAME", "SCOPE", "LIFESPAN", "STATE", "LAST USED"], rows) if rows else "No clients yet."
    show([client_view(client).model_dump(mode="json") for client in found], text=text, as_json=as_json)


@app.command("show")
def show_client(client_id: ClientId, as_json: Json = False) -> None:
    """Everything about one client, but never its secret."""

    async def work(installation: Installation) -> Client:
        async with installation.db.reading() as tx:
            return await manage.get(tx, client_id, author=operator_author())

    _show(on_installation(work), as_json=as_json)


@app.command()
def rotate(client_id: ClientId, grace: Grace = "now", as_json: Json = False) -> None:
    """Make a new secret, shown this once. The old one ends now, or after a grace."""
    wait = model.parse_grace(grace)

    async def work(installation: Installation) -> tuple[Client, NewSecret]:
        async with installation.db.transaction() as tx:
            return await manage.rotate(
                tx, installation.vault, client_id, grace=wait, author=operator_author(), now=now()
            )

    _show_new(*on_installation(work), as_json=as_json)


@app.command()
def revoke(
    client_id: ClientId,
    secret: Annotated[str | None, typer.Option(metavar="ID", help="End only this one of two live secrets.")] = None,
    as_json: Json = False,
) -> None:
    """End a client with all its secrets and tokens, for good."""

    async def work(installation: Installation) -> Client:
        async with installation.db.transaction() as tx:
            if secret is not None:
                return await manage.revoke_secret(tx, client_id, secret, author=operator_author(), now=now())
            return await manage.revoke(tx, client_id, author=operator_author(), now=now())

    _show(on_installation(work), as_json=as_json)


@app.command("revoke-tokens")
def revoke_tokens(client_id: ClientId, as_json: Json = False) -> None:
    """End all tokens issued to a client so far. Its secrets stay."""

    async def work(installation: Installation) -> Client:
        async with installation.db.transaction() as tx:
            return await manage.revoke_tokens(tx, client_id, author=operator_author(), now=now())

    _show(on_installation(work), as_json=as_json)


def _show(client: Client, *, as_json: bool) -> None:
    view = client_view(client)
    secrets = [f"{secret.id} (…{secret.hint}, ends {secret.ends_at or 'never'})" for secret in view.secrets]
    lines = dict(view) | {"networks": ", ".join(view.networks) or "anywhere", "secrets": ", ".join(secrets) or "none"}
    show(view.model_dump(mode="json"), text=table(["FIELD", "VALUE"], lines.items()), as_json=as_json)


def _show_new(client: Client, secret: NewSecret, *, as_json: bool) -> None:
    view = new_client_view(client, secret).model_dump(mode="json")
    text = (
        f"client_id      {client.id}\n"
        f"client_secret  {secret.text}\n"
        f"scope          {view['scope']}\n"
        "Keep the secret now: it is stored nowhere and cannot be shown again."
    )
    show(view, text=text, as_json=as_json)
