"""The list of deliveries: narrowed down by its address, page by page, and live at its top."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Row
from starlette.responses import Response

from billhook.console import live
from billhook.console.activity import SPELLED, provider_chart
from billhook.console.choices import list_choices
from billhook.console.fate import BADGES, next_ms
from billhook.console.filters import Asked
from billhook.console.forms import Mistakes
from billhook.console.visit import SignedIn
from billhook.delivery import reads
from billhook.delivery.reads import Filter
from billhook.delivery.store import State
from billhook.errors import GroupNotFound, InvalidParameters, NotFound, NotificationNotFound, ProviderNotFound
from billhook.storage.database import Transaction

PAGE = 50


@dataclass(frozen=True)
class Entry:
    """One line of a list."""

    row: Row[Any]

    @property
    def version(self) -> str:
        return live.version_of(self.row)

    @property
    def next_ms(self) -> int | None:
        return next_ms(self.row)

    @property
    def lasted_ms(self) -> int | None:
        """From sent to ended."""
        return None if self.row.finished_ms is None else self.row.finished_ms - self.row.created_ms


@dataclass(frozen=True)
class Scope:
    """What is wanted, and what it is called: the rows of those that it names."""

    wanted: Filter
    group: Row[Any] | None = None
    provider: Row[Any] | None = None
    notification: Row[Any] | None = None


async def show_deliveries(visit: SignedIn) -> Response:
    asked = Asked.of(visit.request.query_params)
    async with visit.console.db.reading() as tx:
        try:
            scope = await _scope(tx, asked.filter(visit.organization_id, limit=PAGE + 1))
        except InvalidParameters as error:
            return await _refused(tx, visit, asked, error)
        found = await reads.list_with_names(tx, scope.wanted)
        version = live.version_of(*found)
        if live.is_unchanged(visit, version):
            return live.not_modified(visit, version)
        around = {} if live.is_part(visit) else await _around(tx, visit, scope)
    values = {"asked": asked, "mistakes": Mistakes(), **_lines(asked, found), **around}
    return live.render(visit, "deliveries", version, **values)


async def _scope(tx: Transaction, wanted: Filter) -> Scope:
    """Only what is the organization's is looked through: in another's, much would be read and nothing found."""
    owner, names = wanted.organization_id or "", {}
    try:
        if wanted.group_id is not None:
            names["group"] = await reads.get_group(tx, wanted.group_id, owner)
        if wanted.provider_id is not None:
            names["provider"] = await reads.get_destination(tx, wanted.provider_id, owner)
        if wanted.notification_id is not None:
            names["notification"] = await reads.get_notification(tx, wanted.notification_id, owner)
    except NotFound as error:
        raise InvalidParameters.of(FIELDS[type(error)], error.message) from None
    return _consistent(Scope(wanted, **names))


FIELDS: dict[type[NotFound], str] = {
    GroupNotFound: "group_id",
    ProviderNotFound: "provider_id",
    NotificationNotFound: "notification_id",
}


def _consistent(scope: Scope) -> Scope:
    """A provider is of one group, so the group says nothing more; or there can be nothing at all."""
    if scope.provider is None or scope.group is None:
        return scope
    if scope.provider.group_id != scope.group.id:
        raise InvalidParameters.of("provider_id", "is not in the group that is chosen")
    return replace(scope, wanted=replace(scope.wanted, group_id=None))


def _lines(asked: Asked, found: Sequence[Row[Any]]) -> dict[str, Any]:
    older = asked.but(cursor=found[PAGE - 1].id) if len(found) > PAGE else ""
    return {"entries": [Entry(row) for row in found[:PAGE]], "older": older, "badges": BADGES}


async def _around(tx: Transaction, visit: SignedIn, scope: Scope) -> dict[str, Any]:
    """What stands above the list."""
    chosen, span = scope.provider, visit.request.query_params.get("span", "")
    activity = None if chosen is None else await provider_chart(tx, chosen.id, span=span, now=visit.now)
    choices = await list_choices(tx, visit.organization_id)
    return {"choices": choices, "states": State, "scope": scope, "activity": activity, "spans": SPELLED}


async def _refused(tx: Transaction, visit: SignedIn, asked: Asked, error: InvalidParameters) -> Response:
    return visit.render(
        "deliveries.html",
        status=error.status,
        asked=asked,
        mistakes=Mistakes(error),
        choices=await list_choices(tx, visit.organization_id),
        states=State,
        scope=None,
        activity=None,
    )
