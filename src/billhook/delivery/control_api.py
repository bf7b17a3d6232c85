"""Routes of groups and providers that touch the queue or the network: delete, pause, resume, test, recover."""

import time
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request

from billhook.auth.authenticate import Caller, requires
from billhook.delivery import control, replay, trial
from billhook.delivery.bodies import AnyNewTrial, AnyTrial, NewRecovery
from billhook.delivery.context import CHANNEL, Hub, hub_of
from billhook.delivery.retry import Result
from billhook.delivery.views import RecoveryView, TestView, exchange_view, recovery_view
from billhook.groups import manage
from billhook.groups.model import Provider
from billhook.groups.views import AnyProviderView, provider_view
from billhook.providers.kinds import Message
from billhook.storage.notices import announce
from billhook.web.documents import Envelope, errors
from billhook.web.routes import BoundedRoute

router = APIRouter(tags=["groups"], route_class=BoundedRoute)

Reader = Annotated[Caller, requires("groups:read")]
Writer = Annotated[Caller, requires("groups:write")]

PROVIDER = "/groups/{group_id}/providers/{provider_id}"


class Deleted(BaseModel):
    id: str
    cancelled: int = Field(description="Queued deliveries that were cancelled at once; if there are more, they follow.")


@router.delete(
    "/groups/{group_id}",
    summary="Delete a group with its providers",
    description="What is still queued is cancelled, and shown as cancelled.",
    responses=errors(400, 401, 403, 404),
)
async def delete_group(request: Request, caller: Writer, group_id: str) -> Envelope[Deleted]:
    async with hub_of(request).db.transaction() as tx:
        cancelled = await control.delete_group(tx, group_id, author=caller.author, now=datetime.now(UTC))
    return Envelope(data=Deleted(id=group_id, cancelled=cancelled))


@router.delete(
    PROVIDER,
    summary="Delete a provider",
    description="What is still queued for it is cancelled, and shown as cancelled.",
    responses=errors(400, 401, 403, 404),
)
async def delete_provider(request: Request, caller: Writer, group_id: str, provider_id: str) -> Envelope[Deleted]:
    author, now = caller.author, datetime.now(UTC)
    async with hub_of(request).db.transaction() as tx:
        cancelled = await control.delete_provider(tx, group_id, provider_id, author=author, now=now)
    return Envelope(data=Deleted(id=provider_id, cancelled=cancelled))


@router.post(
    PROVIDER + "/pause",
    summary="Pause a provider",
    description="Its deliveries are held until it is resumed, for a week at most.",
    responses=errors(400, 401, 403, 404, 409),
)
async def pause(request: Request, caller: Writer, group_id: str, provider_id: str) -> Envelope[AnyProviderView]:
    hub, author, now = hub_of(request), caller.author, datetime.now(UTC)
    async with hub.db.transaction() as tx:
        paused = await control.pause(tx, hub.vault, group_id, provider_id, author=author, now=now)
    return Envelope(data=provider_view(paused))


@router.post(
    PROVIDER + "/resume",
    summary="Resume a provider that was paused or disabled",
    description="What was held is delivered.",
    responses=errors(400, 401, 403, 404, 409),
)
async def resume(request: Request, caller: Writer, group_id: str, provider_id: str) -> Envelope[AnyProviderView]:
    hub, author, now = hub_of(request), caller.author, datetime.now(UTC)
    async with hub.db.transaction() as tx:
        resumed = await control.resume(tx, hub.vault, group_id, provider_id, author=author, now=now)
    hub.bell.ring()
    return Envelope(data=provider_view(resumed))


@router.post(
    "/groups/{group_id}/providers/test",
    summary="Try settings that are not saved",
    description="Sends one request at once, with `webhook-test: true`, and answers with all that came of it.",
    responses=errors(400, 401, 403, 404, 413, 429),
)
async def test_unsaved(request: Request, caller: Writer, group_id: str, body: AnyNewTrial) -> Envelope[TestView]:
    hub, spec = hub_of(request), body.spec()
    async with hub.db.reading() as tx:
        group = await manage.get_group(tx, group_id, author=caller.author)
    owner = group.organization_id
    provider = trial.unsaved(spec, organization_id=owner, group_id=group.id, now=datetime.now(UTC))
    return await _try(hub, provider, body.message)


@router.post(
    PROVIDER + "/test",
    summary="Try a provider",
    description="Sends one request at once, with `webhook-test: true`, and answers with all that came of it. "
    "Members of a provider in the body take the place of what is saved.",
    responses=errors(400, 401, 403, 404, 413, 429),
)
async def test_provider(
    request: Request, caller: Writer, group_id: str, provider_id: str, body: AnyTrial | None = None
) -> Envelope[TestView]:
    hub = hub_of(request)
    async with hub.db.reading() as tx:
        provider = await manage.get_provider(tx, hub.vault, group_id, provider_id, author=caller.author)
    if body is None:
        return await _try(hub, provider, Message(trial.TITLE, trial.CONTENT))
    return await _try(hub, trial.with_changes(provider, body.values()), body.message)


async def _try(hub: Hub, provider: Provider, message: Message) -> Envelope[TestView]:
    at_ms = time.time_ns() // 1_000_000
    exchange = await hub.trials.run(provider, message, now_ms=at_ms)
    is_success = Result(exchange.status, exchange.error).is_success
    return Envelope(data=TestView(success=is_success, attempt=exchange_view(exchange, at_ms=at_ms)))


@router.post(
    PROVIDER + "/recover",
    summary="Deliver again all that failed since a moment",
    description="A job that goes on by itself, also through restarts.",
    status_code=202,
    responses=errors(400, 401, 403, 404, 413),
)
async def recover(
    request: Request, caller: Writer, group_id: str, provider_id: str, body: NewRecovery
) -> Envelope[RecoveryView]:
    hub, since_ms, now = hub_of(request), int(body.since.timestamp() * 1000), datetime.now(UTC)
    async with hub.db.transaction() as tx:
        provider = await manage.get_provider(tx, hub.vault, group_id, provider_id, author=caller.author)
        begun = await replay.begin_recovery(tx, provider, since_ms=since_ms, actor=caller.author.actor, now=now)
        await announce(tx, CHANNEL)
    hub.bell.ring()
    return Envelope(data=recovery_view(begun))


@router.get(
    PROVIDER + "/recoveries/{recovery_id}",
    summary="How far a recovery has come",
    responses=errors(400, 401, 403, 404),
)
async def get_recovery(
    request: Request, caller: Reader, group_id: str, provider_id: str, recovery_id: str
) -> Envelope[RecoveryView]:
    hub = hub_of(request)
    async with hub.db.reading() as tx:
        provider = await manage.get_provider(tx, hub.vault, group_id, provider_id, author=caller.author)
        return Envelope(data=recovery_view(await replay.find_recovery(tx, provider.id, recovery_id)))
