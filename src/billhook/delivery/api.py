"""Send notifications, see what became of them, deliver again: /api/v1/notifications and /api/v1/deliveries."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query
from pydantic import AwareDatetime
from starlette.requests import Request
from starlette.responses import Response

from billhook.auth.authenticate import Caller, authorize, requires
from billhook.delivery import reads, replay
from billhook.delivery.accept import LONGEST_KEY, Accepted, Send, valid_key
from billhook.delivery.bodies import NewNotification
from billhook.delivery.context import CHANNEL, hub_of
from billhook.delivery.reads import Filter
from billhook.delivery.store import State
from billhook.delivery.views import (
    AcceptedView,
    DeliveryDetail,
    DeliveryList,
    DeliveryView,
    NotificationDetail,
    NotificationList,
    NotificationView,
    accepted_json,
    accepted_view,
    attempt_view,
    delivery_fields,
    delivery_view,
    notification_fields,
)
from billhook.errors import InvalidParameters
from billhook.storage.ids import is_id
from billhook.storage.notices import announce
from billhook.web.documents import Envelope, errors
from billhook.web.paging import Cursor, Limit, meta_of, valid_cursor
from billhook.web.routes import BoundedRoute, read_as

router = APIRouter(tags=["notifications"], route_class=BoundedRoute)

MOST_PROVIDERS = 1000  # that the setting allows a group
SEND = "notifications:send"
SEND_PATH = "/groups/{group_id}/notifications"

Reader = Annotated[Caller, requires("notifications:read")]
Sender = Annotated[Caller, requires(SEND)]
OnlyId = Annotated[str | None, Query(max_length=64, description="Only of this one.")]
Since = Annotated[AwareDatetime | None, Query(description="Created at this moment or later.")]
Until = Annotated[AwareDatetime | None, Query(description="Created before this moment.")]
KEY_HELP = "The same key again within 24 hours gives the same answer, and sends nothing again."
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description=KEY_HELP, json_schema_extra={"minLength": 1, "maxLength": LONGEST_KEY}),
]


@router.post(
    SEND_PATH,
    summary="Send a notification through a group",
    description="Accepted when it is stored together with one delivery for each provider of the group.",
    status_code=202,
    responses=errors(400, 401, 403, 404, 409, 413),
)
async def send_notification(
    request: Request, caller: Sender, group_id: str, body: NewNotification, idempotency_key: Key = None
) -> Envelope[AcceptedView]:
    return Envelope(data=accepted_view(await _send(request, caller, group_id, body, idempotency_key)))


async def send_directly(request: Request) -> Response:
    """The same without FastAPI, which only describes it: finding out what the function wants costs it 500 us a time."""
    caller, body = authorize(request, SEND), await read_as(request, NewNotification)
    key = request.headers.get("idempotency-key")
    accepted = await _send(request, caller, request.path_params["group_id"], body, key)
    return Response(accepted_json(accepted), status_code=202, media_type="application/json")


async def _send(request: Request, caller: Caller, group_id: str, body: NewNotification, key: str | None) -> Accepted:
    sender = f"client:{caller.client_id}"
    return await hub_of(request).send(Send(caller.organization_id, group_id, sender, body.message, valid_key(key)))


@router.get("/notifications", summary="List notifications, the newest first", responses=errors(400, 401, 403))
async def list_notifications(
    request: Request,
    caller: Reader,
    group_id: OnlyId = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> NotificationList:
    wanted = Filter(
        caller.organization_id,
        group_id=_only(group_id, "group_id"),
        since_ms=_ms(since),
        until_ms=_ms(until),
        after=valid_cursor(cursor, "ntf"),
        limit=limit + 1,
    )
    async with hub_of(request).db.reading() as tx:
        found = await reads.list_notifications(tx, wanted)
    page = [NotificationView(**notification_fields(row)) for row in found[:limit]]
    return NotificationList(data=page, meta=meta_of(found, limit))


@router.get("/notifications/{notification_id}", summary="One notification", responses=errors(400, 401, 403, 404))
async def get_notification(request: Request, caller: Reader, notification_id: str) -> Envelope[NotificationDetail]:
    async with hub_of(request).db.reading() as tx:
        found = await reads.get_notification(tx, notification_id, caller.organization_id)
        wanted = Filter(caller.organization_id, notification_id=found.id, limit=MOST_PROVIDERS)
        its = await reads.list_deliveries(tx, wanted)
    told = [delivery_view(row) for row in reversed(its)]
    return Envelope(data=NotificationDetail(**notification_fields(found), deliveries=told))


@router.get("/deliveries", summary="List deliveries, the newest first", responses=errors(400, 401, 403))
async def list_deliveries(
    request: Request,
    caller: Reader,
    group_id: OnlyId = None,
    provider_id: OnlyId = None,
    notification_id: OnlyId = None,
    state: State | None = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> DeliveryList:
    wanted = Filter(
        caller.organization_id,
        group_id=_only(group_id, "group_id"),
        provider_id=_only(provider_id, "provider_id"),
        notification_id=_only(notification_id, "notification_id"),
        state=state,
        since_ms=_ms(since),
        until_ms=_ms(until),
        after=valid_cursor(cursor, "dlv"),
        limit=limit + 1,
    )
    async with hub_of(request).db.reading() as tx:
        found = await reads.list_deliveries(tx, wanted)
    return DeliveryList(data=[delivery_view(row) for row in found[:limit]], meta=meta_of(found, limit))


@router.get("/deliveries/{delivery_id}", summary="One delivery with its attempts", responses=errors(400, 401, 403, 404))
async def get_delivery(request: Request, caller: Reader, delivery_id: str) -> Envelope[DeliveryDetail]:
    async with hub_of(request).db.reading() as tx:
        found = await reads.get_delivery(tx, delivery_id, caller.organization_id)
        tried = await reads.list_attempts(tx, delivery_id)
    log = [attempt_view(row) for row in tried]
    return Envelope(data=DeliveryDetail(**delivery_fields(found), attempt_log=log))


@router.post(
    "/deliveries/{delivery_id}/redeliver",
    summary="Deliver again",
    description="At once, with the same `webhook-id` and a fresh schedule of attempts.",
    status_code=202,
    responses=errors(400, 401, 403, 404, 409),
)
async def redeliver(request: Request, caller: Sender, delivery_id: str) -> Envelope[DeliveryView]:
    hub, actor = hub_of(request), caller.author.actor
    async with hub.db.transaction() as tx:
        await replay.redeliver(tx, delivery_id, actor=actor, now=datetime.now(UTC))
        found = await reads.get_delivery(tx, delivery_id, caller.organization_id)
        await announce(tx, CHANNEL)
    hub.bell.ring()
    return Envelope(data=delivery_view(found))


def _only(id: str | None, field: str) -> str | None:
    if id is not None and not is_id(id):
        raise InvalidParameters.of(field, "no id")
    return id


def _ms(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1000)
