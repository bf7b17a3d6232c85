"""billhook send, billhook deliveries and billhook redeliver"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from sqlalchemy import Row

from billhook.accounts.installation import Installation
from billhook.accounts.organizations import find_organization
from billhook.cli.clients import Organization
from billhook.cli.groups import GroupName, find_group
from billhook.cli.output import Json, print_json_line, show, table
from billhook.cli.session import now, on_installation, operator, operator_author
from billhook.delivery import reads, replay
from billhook.delivery.accept import Accepted, Send, accept, valid_key, valid_message
from billhook.delivery.context import CHANNEL
from billhook.delivery.reads import Filter
from billhook.delivery.store import State
from billhook.delivery.views import accepted_view, attempt_view, delivery_fields, delivery_view, request_line
from billhook.errors import BillhookError, InvalidParameters
from billhook.groups.directory import Directory
from billhook.storage.notices import announce

FOLLOW_SECONDS = 0.5
FOLLOWED = 500  # deliveries at most that one look takes in

TITLES = ["DELIVERY ID", "STATE", "ATTEMPTS", "LAST", "PROVIDER ID", "CREATED", "NEXT ATTEMPT"]

OnlyGroup = Annotated[str | None, typer.Option(metavar="GROUP", help="Only of this group: its id, or name.")]
OnlyProvider = Annotated[str | None, typer.Option(metavar="ID", help="Only of this provider.")]
OnlyState = Annotated[State | None, typer.Option(help="Only those in this state.")]
Since = Annotated[datetime | None, typer.Option(help="Only those created at this moment (UTC) or later.")]


def send(
    group: GroupName,
    title: Annotated[str, typer.Option(help="1 to 256 characters.")],
    content: Annotated[str, typer.Option(help="At most 32 KiB.")],
    idempotency_key: Annotated[str | None, typer.Option(help="Send only once, however often this is run.")] = None,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Send a notification through a group. A process that serves, or a worker, delivers it."""
    message, key = valid_message(title, content), valid_key(idempotency_key)

    async def work(installation: Installation) -> Accepted:
        async with installation.db.transaction() as tx:
            found = await find_group(tx, group, organization)
            wanted = Send(found.organization_id, found.id, operator().name, message, key)
            (answer,) = await accept(tx, Directory(installation.vault), [wanted])
            if isinstance(answer, BillhookError):
                raise answer
            await announce(tx, CHANNEL)
            return answer

    accepted = on_installation(work)
    queued = table(
        ["DELIVERY ID", "PROVIDER ID", "STATE"], [(d.id, d.provider_id, d.state) for d in accepted.deliveries]
    )
    text = f"Accepted notification {accepted.id}.\n{accepted.warning or queued}"
    show(accepted_view(accepted).model_dump(mode="json"), text=text, as_json=as_json)


def deliveries(
    delivery_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this one, with its attempts.")] = None,
    state: OnlyState = None,
    group: OnlyGroup = None,
    provider: OnlyProvider = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="Go on, and show each change; ends with Ctrl-C.")] = False,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """What became of what was sent, the newest first."""
    if delivery_id is not None:
        _show_one(delivery_id, as_json=as_json)
        return

    async def work(installation: Installation) -> None:
        wanted = await _filter(installation, state, group, provider, since, limit, organization)
        if follow:
            await _follow(installation, replace(wanted, limit=FOLLOWED), as_json=as_json)
            return
        async with installation.db.reading() as tx:
            found = await reads.list_deliveries(tx, wanted)
        text = table(TITLES, map(_line, found)) if found else "No deliveries."
        show([delivery_view(row).model_dump(mode="json") for row in found], text=text, as_json=as_json)

    on_installation(work)


def redeliver(delivery_id: Annotated[str, typer.Argument(metavar="ID")], as_json: Json = False) -> None:
    """Deliver again, at once, with a fresh schedule of attempts."""

    async def work(installation: Installation) -> Row[Any]:
        async with installation.db.transaction() as tx:
            await replay.redeliver(tx, delivery_id, actor=operator_author().actor, now=now())
            await announce(tx, CHANNEL)
            return await reads.get_delivery(tx, delivery_id, None)

    found = on_installation(work)
    show(delivery_view(found).model_dump(mode="json"), text=f"{found.id} is queued again.", as_json=as_json)


async def _filter(
    installation: Installation,
    state: State | None,
    group: str | None,
    provider: str | None,
    since: datetime | None,
    limit: int,
    organization: str | None,
) -> Filter:
    async with installation.db.reading() as tx:
        if organization is not None:
            await find_organization(tx, organization)
        group_id = (await find_group(tx, group, organization)).id if group is not None else None
    if provider is not None and not (provider.isascii() and provider.isprintable()):
        raise InvalidParameters.of("provider", "is no id")
    since_ms = int(since.replace(tzinfo=UTC).timestamp() * 1000) if since is not None else None
    return Filter(organization, group_id=group_id, provider_id=provider, state=state, since_ms=since_ms, limit=limit)


def _show_one(delivery_id: str, *, as_json: bool) -> None:
    async def work(installation: Installation) -> tuple[Row[Any], Sequence[Row[Any]]]:
        async with installation.db.reading() as tx:
            return await reads.get_delivery(tx, delivery_id, None), await reads.list_attempts(tx, delivery_id)

    found, tried = on_installation(work)
    log = [attempt_view(row) for row in tried]
    fields = delivery_view(found).model_dump(mode="json")
    lines = [
        (each.number, each.at, each.status or each.error, each.address, each.timings.total, request_line(each.request))
        for each in log
    ]
    text = table(["FIELD", "VALUE"], delivery_fields(found).items())
    if lines:
        text += "\n\n" + table(["ATTEMPT", "AT", "RESULT", "ADDRESS", "MILLISECONDS", "REQUEST"], lines)
    show(fields | {"attempt_log": [each.model_dump(mode="json") for each in log]}, text=text, as_json=as_json)


async def _follow(installation: Installation, wanted: Filter, *, as_json: bool) -> None:
    """One line, or one JSON document, for each delivery that is new or has changed."""
    seen: dict[str, tuple[str, int]] = {}
    while True:
        async with installation.db.reading() as tx:
            found = await reads.list_deliveries(tx, wanted)
        for row in _changed(found, seen):
            if as_json:
                print_json_line(delivery_view(row).model_dump(mode="json"))
            else:
                show(None, text="  ".join(str(cell) for cell in _line(row)), as_json=False)
        seen = {row.id: (row.state, row.attempts) for row in found}
        await asyncio.sleep(FOLLOW_SECONDS)


def _changed(found: Sequence[Row[Any]], seen: dict[str, tuple[str, int]]) -> Iterator[Row[Any]]:
    """The oldest first, as they happened."""
    return (row for row in reversed(found) if seen.get(row.id) != (row.state, row.attempts))


def _line(row: Row[Any]) -> list[object]:
    view = delivery_view(row)
    last = view.status if view.error is None else view.error
    return [view.id, view.state, view.attempts, last, view.provider_id, view.created_at, view.next_attempt_at]
