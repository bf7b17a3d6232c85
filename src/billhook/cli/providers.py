"""billhook provider …"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from billhook.accounts.installation import Installation
from billhook.accounts.organizations import find_organization
from billhook.cli.clients import Organization
from billhook.cli.groups import GroupName, find_group
from billhook.cli.output import Json, show, table
from billhook.cli.session import now, on_installation, operator_author
from billhook.delivery import control, replay, trial
from billhook.delivery.accept import valid_message
from billhook.delivery.context import CHANNEL, open_hub
from billhook.delivery.replay import Recovery
from billhook.delivery.retry import Result
from billhook.delivery.views import exchange_view, recovery_view, request_line
from billhook.errors import InvalidParameters
from billhook.groups import manage, store
from billhook.groups.manage import ProviderSpec
from billhook.groups.model import Provider
from billhook.groups.views import new_provider_view, provider_view
from billhook.outbound.request import Exchange
from billhook.providers.kinds import MASK
from billhook.storage.notices import announce
from billhook.web.metrics import Metrics

app = typer.Typer(help="Providers: the receivers of what is sent to a group.", no_args_is_help=True)

ProviderId = Annotated[str, typer.Argument(metavar="PROVIDER_ID")]
Name = Annotated[str, typer.Option(help="What people call it.")]
Url = Annotated[str, typer.Option(metavar="URL", help="The receiver's address.")]
Method = Annotated[str, typer.Option(metavar="GET|POST", help="How it is asked.")]
Header = Annotated[list[str] | None, typer.Option(metavar="'KEY: VALUE'", help="Sent with every request; repeatable.")]
RateLimit = Annotated[int | None, typer.Option(metavar="N", help="Requests a second at most; 0: no limit.")]


@app.command()
def add(
    group: GroupName,
    name: Name,
    url: Url,
    type: Annotated[str, typer.Option(help="What kind of receiver it is.")] = "Webhook",
    method: Method = "POST",
    header: Header = None,
    rate_limit: RateLimit = None,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Add a provider to a group. Its signing secret is shown this once."""
    fields = {"server_url": url, "request_method": method.upper(), "request_headers": parse_headers(header or [])}
    spec = ProviderSpec(type=type, name=name, fields=fields, rate_limit=rate_limit)

    async def work(installation: Installation) -> tuple[Provider, str]:
        most = installation.settings.max_providers
        async with installation.db.transaction() as tx:
            found = await find_group(tx, group, organization)
            return await manage.create_provider(
                tx, installation.vault, found.id, spec, most=most, author=operator_author(), now=now()
            )

    _show_new(*on_installation(work), as_json=as_json)


@app.command("list")
def list_providers(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Only of this group: its id, or name.")] = None,
    organization: Annotated[str | None, typer.Option(metavar="ID", help="Only of this organization.")] = None,
    as_json: Json = False,
) -> None:
    """All providers, or those of a group; the newest first."""

    async def work(installation: Installation) -> list[Provider]:
        async with installation.db.reading() as tx:
            if organization is not None:
                await find_organization(tx, organization)
            group_id = (await find_group(tx, group, organization)).id if group is not None else None
            rows = await store.list_providers(tx, organization, group_id=group_id)
            return [store.open_provider(installation.vault, row) for row in rows]

    views = [provider_view(provider).model_dump(mode="json") for provider in on_installation(work)]
    names = ("id", "name", "group_id", "type", "request_method", "state")
    rows = [[*(view.get(name) for name in names), view["health"]["status"]] for view in views]
    titles = ["PROVIDER ID", "NAME", "GROUP ID", "TYPE", "METHOD", "STATE", "HEALTH"]
    show(views, text=table(titles, rows) if rows else "No providers yet.", as_json=as_json)


@app.command("show")
def show_provider(provider_id: ProviderId, as_json: Json = False) -> None:
    """Everything about one provider, but never its secrets."""

    async def work(installation: Installation) -> Provider:
        async with installation.db.reading() as tx:
            return await manage.get_provider(tx, installation.vault, None, provider_id, author=operator_author())

    show_one(on_installation(work), as_json=as_json)


@app.command()
def change(
    provider_id: ProviderId,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="The receiver's address.")] = None,
    method: Annotated[str | None, typer.Option(metavar="GET|POST", help="How it is asked.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'KEY: VALUE'",
            help=f"Instead of all the headers it has; repeatable. The value {MASK} keeps the one there is.",
        ),
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Send none of its own.")] = False,
    rate_limit: RateLimit = None,
    as_json: Json = False,
) -> None:
    """Change a provider. What is left out stays as it is."""
    given = {
        "name": name,
        "server_url": url,
        "request_method": method and method.upper(),
        "request_headers": parse_headers(header or []) if header or no_headers else None,
        "rate_limit": rate_limit,
    }
    changes = {field: value for field, value in given.items() if value is not None}

    async def work(installation: Installation) -> Provider:
        async with installation.db.transaction() as tx:
            return await manage.change_provider(
                tx, installation.vault, None, provider_id, changes, author=operator_author(), now=now()
            )

    show_one(on_installation(work), as_json=as_json)


@app.command("rotate-signing-secret")
def rotate_signing_secret(provider_id: ProviderId, as_json: Json = False) -> None:
    """Make a new signing secret, shown this once. The old one goes on signing beside it for 24 hours."""

    async def work(installation: Installation) -> tuple[Provider, str]:
        async with installation.db.transaction() as tx:
            return await manage.rotate_signing_secret(
                tx, installation.vault, None, provider_id, author=operator_author(), now=now()
            )

    _show_new(*on_installation(work), as_json=as_json)


@app.command()
def delete(provider_id: ProviderId, as_json: Json = False) -> None:
    """Delete a provider. What is still queued for it is cancelled, and shown as cancelled."""

    async def work(installation: Installation) -> int:
        async with installation.db.transaction() as tx:
            return await control.delete_provider(tx, None, provider_id, author=operator_author(), now=now())

    cancelled = on_installation(work)
    text = f"Deleted {provider_id}; {cancelled} queued deliveries are cancelled."
    show({"id": provider_id, "cancelled": cancelled}, text=text, as_json=as_json)


@app.command()
def pause(provider_id: ProviderId, as_json: Json = False) -> None:
    """Send it nothing for now. Its deliveries are held, for a week at most."""
    _steer(control.pause, provider_id, as_json=as_json)


@app.command()
def resume(provider_id: ProviderId, as_json: Json = False) -> None:
    """Send to it again, also what was held while it was paused or disabled."""
    _steer(control.resume, provider_id, as_json=as_json)


def _steer(change: Callable[..., Awaitable[Provider]], provider_id: str, *, as_json: bool) -> None:
    async def work(installation: Installation) -> Provider:
        async with installation.db.transaction() as tx:
            return await change(tx, installation.vault, None, provider_id, author=operator_author(), now=now())

    show_one(on_installation(work), as_json=as_json)


@app.command()
def test(
    provider_id: ProviderId,
    title: Annotated[str, typer.Option()] = trial.TITLE,
    content: Annotated[str, typer.Option()] = trial.CONTENT,
    as_json: Json = False,
) -> None:
    """Send one request to it now, marked as a test, and show all that came of it. Exit status 1: it was not taken."""
    message, at_ms = valid_message(title, content), int(now().timestamp() * 1000)

    async def work(installation: Installation) -> Exchange:
        async with installation.db.reading() as tx:
            found = await manage.get_provider(tx, installation.vault, None, provider_id, author=operator_author())
        async with open_hub(installation, Metrics()) as hub:
            return await hub.trials.run(found, message, now_ms=at_ms)

    exchange = on_installation(work)
    is_success = Result(exchange.status, exchange.error).is_success
    seen = exchange_view(exchange, at_ms=at_ms)
    view = seen.model_dump(mode="json")
    short = {"timings": seen.timings.total, "request": request_line(seen.request)}
    lines = {**view, **short, "response_headers": len(seen.response_headers)}
    document = {"success": is_success, "attempt": view}
    show(document, text=table(["FIELD", "VALUE"], lines.items()), as_json=as_json)
    raise typer.Exit(0 if is_success else 1)


@app.command()
def recover(
    provider_id: ProviderId,
    since: Annotated[datetime, typer.Option(help="From when on (UTC), such as 2026-11-15T08:00:00.")],
    as_json: Json = False,
) -> None:
    """Deliver again all that failed since a moment. A process that serves, or a worker, does it."""
    since_ms = int(since.replace(tzinfo=UTC).timestamp() * 1000)

    async def work(installation: Installation) -> Recovery:
        async with installation.db.transaction() as tx:
            found = await manage.get_provider(tx, installation.vault, None, provider_id, author=operator_author())
            actor = operator_author().actor
            await announce(tx, CHANNEL)
            return await replay.begin_recovery(tx, found, since_ms=since_ms, actor=actor, now=now())

    begun = recovery_view(on_installation(work)).model_dump(mode="json")
    show(begun, text=table(["FIELD", "VALUE"], begun.items()), as_json=as_json)


def parse_headers(lines: Sequence[str]) -> list[dict[str, str]]:
    parts = [line.partition(":") for line in lines]
    for place, (_, colon, _) in enumerate(parts):
        if not colon:
            raise InvalidParameters.of(f"request_headers[{place}]", "must be written as 'Key: value'")
    return [{"key": key, "value": value} for key, _, value in parts]


def show_one(provider: Provider, *, as_json: bool) -> None:
    view = provider_view(provider).model_dump(mode="json")
    show(view, text=table(["FIELD", "VALUE"], _lines(view).items()), as_json=as_json)


def _show_new(provider: Provider, secret: str, *, as_json: bool) -> None:
    text = (
        f"id              {provider.id}\n"
        f"signing_secret  {secret}\n"
        "Keep the secret now: receivers verify requests with it, and it cannot be shown again."
    )
    show(new_provider_view(provider, secret).model_dump(mode="json"), text=text, as_json=as_json)


def _lines(view: dict[str, Any]) -> dict[str, object]:
    headers = [f"{header['key']}: {header['value']}" for header in view.get("request_headers", [])]
    health = {f"health.{name}": value for name, value in view["health"].items()}
    plain = {name: value for name, value in view.items() if name != "health"}
    return {**plain, "request_headers": ", ".join(headers), **health}
