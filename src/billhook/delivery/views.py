"""Notifications, deliveries and attempts as the API and the command line show them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from pydantic import BaseModel, Field
from sqlalchemy import Row

from billhook.delivery.accept import Accepted
from billhook.delivery.outcomes import detail_of, readable
from billhook.delivery.replay import Recovery
from billhook.outbound.request import ERRORS, Exchange
from billhook.web.documents import Meta


class QueuedView(BaseModel):
    id: str
    provider_id: str
    state: str = Field(description="`pending`, or `held` while the provider is paused or disabled.")


class AcceptedView(BaseModel):
    id: str
    group_id: str
    created_at: datetime
    deliveries: list[QueuedView]
    warning: str | None = Field(description="Why nobody will be told, if so.")


class NotificationView(BaseModel):
    id: str
    organization_id: str
    group_id: str
    sender: str = Field(description="Who sent it: a client's id, or the command line.")
    title: str
    content: str
    created_at: datetime


class DeliveryView(BaseModel):
    id: str = Field(description="Also the `webhook-id` of each of its attempts.")
    organization_id: str
    group_id: str
    provider_id: str
    notification_id: str
    state: str = Field(description="`pending`, `delivered`, `failed`, `held` or `cancelled`.")
    attempts: int
    status: int | None = Field(description="HTTP status of the last attempt.")
    error: str | None = Field(description="What went wrong with the last attempt, in one word.")
    created_at: datetime
    next_attempt_at: datetime | None
    finished_at: datetime | None


class TimingsView(BaseModel):
    dns: float | None
    connect: float | None
    tls: float | None
    first_byte: float | None
    total: float


class HeaderView(BaseModel):
    key: str
    value: str


class RequestView(BaseModel):
    method: str
    url: str = Field(description="Secrets are masked, and the message is left out.")
    headers: list[HeaderView] = Field(description="In their order; the values of the provider's own are masked.")


class AttemptView(BaseModel):
    number: int
    at: datetime
    status: int | None
    error: str | None = Field(description="One word, such as `timeout`.")
    message: str | None = Field(description="The same in a sentence.")
    address: str | None = Field(description="The address that was dialled.")
    timings: TimingsView = Field(description="Milliseconds.")
    request: RequestView | None = Field(description="As it was sent; null when it was not kept, as in old attempts.")
    response_headers: list[HeaderView]
    response_body: str = Field(description="Its first 16 KiB.")
    response_truncated: bool
    next_attempt_at: datetime | None


class DeliveryDetail(DeliveryView):
    attempt_log: list[AttemptView] = Field(description="The newest first.")


class NotificationDetail(NotificationView):
    deliveries: list[DeliveryView]


class TestView(BaseModel):
    success: bool
    attempt: AttemptView


class RecoveryView(BaseModel):
    id: str
    provider_id: str
    state: str = Field(description="`running` or `finished`.")
    since: datetime
    recovered: int = Field(description="Deliveries taken up again so far.")
    created_at: datetime
    finished_at: datetime | None


class DeliveryList(BaseModel):
    code: str = "success"
    data: list[DeliveryView]
    meta: Meta


class NotificationList(BaseModel):
    code: str = "success"
    data: list[NotificationView]
    meta: Meta


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def accepted_view(accepted: Accepted) -> AcceptedView:
    return AcceptedView(
        id=accepted.id,
        group_id=accepted.group_id,
        created_at=moment(accepted.created_ms),
        deliveries=[QueuedView(id=d.id, provider_id=d.provider_id, state=d.state) for d in accepted.deliveries],
        warning=accepted.warning,
    )


def accepted_json(accepted: Accepted) -> bytes:
    """The same in its envelope, as it goes over the wire: a tenth of what the models take, for every notification."""
    told = {
        "id": accepted.id,
        "group_id": accepted.group_id,
        "created_at": moment(accepted.created_ms),
        "deliveries": [{"id": d.id, "provider_id": d.provider_id, "state": d.state} for d in accepted.deliveries],
        "warning": accepted.warning,
    }
    return orjson.dumps({"code": "success", "data": told}, option=orjson.OPT_UTC_Z)


def notification_fields(row: Row[Any]) -> dict[str, Any]:
    names = ("id", "organization_id", "group_id", "sender", "title", "content")
    return {name: getattr(row, name) for name in names} | {"created_at": moment(row.created_ms)}


def delivery_fields(row: Row[Any]) -> dict[str, Any]:
    names = ("id", "organization_id", "group_id", "provider_id", "notification_id", "state", "attempts", "status")
    return {name: getattr(row, name) for name in names} | {
        "error": row.error,
        "created_at": moment(row.created_ms),
        "next_attempt_at": moment(row.due_ms) if row.state == "pending" else None,
        "finished_at": None if row.finished_ms is None else moment(row.finished_ms),
    }


def delivery_view(row: Row[Any]) -> DeliveryView:
    return DeliveryView(**delivery_fields(row))


def attempt_view(row: Row[Any]) -> AttemptView:
    next_at = None if row.next_ms is None else moment(row.next_ms)
    return _attempt(row.number, row.at_ms, row.status, row.error, orjson.loads(row.detail), row.body, next_at)


def exchange_view(exchange: Exchange, *, at_ms: int) -> AttemptView:
    body = readable(exchange.body)
    return _attempt(1, at_ms, exchange.status, exchange.error, detail_of(exchange), body, None)


def _attempt(
    number: int,
    at_ms: int,
    status: int | None,
    error: str | None,
    detail: dict[str, Any],
    body: str,
    next_at: datetime | None,
) -> AttemptView:
    return AttemptView(
        number=number,
        at=moment(at_ms),
        status=status,
        error=error,
        message=None if error is None else ERRORS.get(error),
        address=detail["address"],
        timings=TimingsView(**detail["timings"]),
        request=_request(detail.get("request")),
        response_headers=_headers(detail["headers"]),
        response_body=body,
        response_truncated=detail["truncated"],
        next_attempt_at=next_at,
    )


def _request(asked: Mapping[str, Any] | None) -> RequestView | None:
    if asked is None:
        return None
    return RequestView(method=asked["method"], url=asked["url"], headers=_headers(asked["headers"]))


def request_line(request: RequestView | None) -> str | None:
    return None if request is None else f"{request.method} {request.url}"


def _headers(pairs: Iterable[tuple[str, str]]) -> list[HeaderView]:
    return [HeaderView(key=key, value=value) for key, value in pairs]


def recovery_view(recovery: Recovery) -> RecoveryView:
    return RecoveryView(
        id=recovery.id,
        provider_id=recovery.provider_id,
        state=recovery.state,
        since=moment(recovery.since_ms),
        recovered=recovery.recovered,
        created_at=moment(recovery.created_ms),
        finished_at=None if recovery.finished_ms is None else moment(recovery.finished_ms),
    )
