"""One delivery: what is said, to whom, every attempt, what happens next; and deliver it again."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row
from starlette.responses import Response

from billhook.accounts import users
from billhook.auth.store import find_client
from billhook.console import curl, live
from billhook.console.fate import BADGES, Fate, fate_of
from billhook.console.forms import Mistakes
from billhook.console.hiding import shown_to, with_dots
from billhook.console.places import now_ms
from billhook.console.visit import SignedIn
from billhook.delivery import reads, replay
from billhook.delivery.attempt import build
from billhook.delivery.context import CHANNEL
from billhook.delivery.reads import Filter
from billhook.delivery.views import attempt_view
from billhook.errors import DeliveryConflict, NotificationNotFound, UserNotFound
from billhook.groups.model import Provider
from billhook.outbound.request import Outgoing
from billhook.storage.database import Transaction
from billhook.storage.notices import announce

ATTEMPTS = 20  # on one page: each may have 16 KiB to show
OTHERS = 20
SIGNATURE = "v1,<signature>"  # made anew for each attempt, with a secret that is not shown


@dataclass(frozen=True)
class Seen:
    """What the live part of the page is made of, but for the attempts."""

    delivery: Row[Any]
    provider: Row[Any]
    others: list[Row[Any]]  # deliveries of the same notification
    fate: Fate

    @property
    def version(self) -> str:
        provider, others = self.provider, [(each.id, each.state) for each in self.others]
        named = (provider.name, provider.group_name, provider.state, provider.deleted_at)
        return live.version_of(self.delivery, self.fate, named, others)


@dataclass(frozen=True)
class Sender:
    name: str
    path: str = ""  # of their page


async def show_delivery(visit: SignedIn) -> Response:
    return await _page(visit, Mistakes())


async def redeliver(visit: SignedIn) -> Response:
    hub, delivery_id = visit.console.hub, _delivery_id(visit)
    try:
        async with hub.db.transaction() as tx:
            await replay.redeliver(tx, delivery_id, actor=visit.actor, now=visit.now)
            await announce(tx, CHANNEL)
    except DeliveryConflict as error:
        return await _page(visit, Mistakes(error), status=error.status)
    hub.bell.ring()
    return visit.go(f"/deliveries/{delivery_id}", done="redelivering")


async def _page(visit: SignedIn, mistakes: Mistakes, *, status: int = 200) -> Response:
    before = _before(visit)
    async with visit.console.db.reading() as tx:
        seen = await _see(tx, visit)
        version = live.version_of(seen.version, before)
        if live.is_unchanged(visit, version):
            return live.not_modified(visit, version)
        tried = await reads.list_attempts(tx, seen.delivery.id, before=before, limit=ATTEMPTS + 1)
        around = {} if live.is_part(visit) else await _around(tx, visit, seen)
    shown = {"attempts": [attempt_view(row) for row in tried[:ATTEMPTS]], "has_older": len(tried) > ATTEMPTS}
    values = {"seen": seen, "badges": BADGES, "before": before, "mistakes": mistakes, **shown, **around}
    return live.render(visit, "delivery", version, status=status, **values)


async def _see(tx: Transaction, visit: SignedIn) -> Seen:
    owner = visit.organization_id
    found = await reads.get_delivery(tx, _delivery_id(visit), owner)
    provider = await reads.get_destination(tx, found.provider_id, owner)
    of_the_same = Filter(owner, notification_id=found.notification_id, limit=OTHERS + 1)
    others = [row for row in await reads.list_with_names(tx, of_the_same) if row.id != found.id]
    return Seen(found, provider, others, fate_of(found, provider, now_ms=now_ms(visit)))


async def _around(tx: Transaction, visit: SignedIn, seen: Seen) -> dict[str, Any]:
    """What does not change while one looks."""
    try:
        said = await reads.get_notification(tx, seen.delivery.notification_id, visit.organization_id)
    except NotificationNotFound:
        return {"notification": None, "outgoing": None}
    sender = await find_sender(tx, said.sender, visit.organization_id)
    return {"notification": said, "sender": sender, **_request(visit, seen, said)}


def _request(visit: SignedIn, seen: Seen, said: Row[Any]) -> dict[str, Any]:
    if seen.provider.deleted_at is not None:
        return {"outgoing": None}
    provider = visit.console.hub.directory.open(seen.provider)
    shown = shown_to(provider, may_change=visit.may_change)
    request = request_now(shown, said, seen.delivery.id, now_ms=now_ms(visit))
    return {"outgoing": request, "command": curl.command(request), "variables": curl.variables(request)}


def request_now(provider: Provider, said: Row[Any], delivery_id: str, *, now_ms: int) -> Outgoing:
    """As it would be sent now, by a provider as `shown_to` gives it."""
    request = build(provider, said.title, said.content, delivery_id, now_ms=now_ms)
    signed = [(name, SIGNATURE if name == "webhook-signature" else value) for name, value in request.headers]
    return request._replace(url=with_dots(request.url), headers=tuple(signed))


async def find_sender(tx: Transaction, sender: str, organization_id: str) -> Sender:
    """Who sent a notification, as people know them; by their id when they are gone."""
    kind, _, id = sender.partition(":")
    if kind == "client":
        client = await find_client(tx, id, organization_id)
        return Sender(id) if client is None else Sender(client.name, f"/settings/api-keys/{id}")
    if kind == "user":
        try:
            return Sender((await users.get_user(tx, id, organization_id)).email)
        except UserNotFound:
            return Sender(id)
    return Sender("the command line" if kind == "cli" else sender)


def _before(visit: SignedIn) -> int | None:
    """The attempt that older ones are wanted of."""
    given = visit.request.query_params.get("before", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None


def _delivery_id(visit: SignedIn) -> str:
    return str(visit.request.path_params["delivery_id"])
