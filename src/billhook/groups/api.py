"""/api/v1/groups and the providers in them."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from starlette.requests import Request

from billhook.auth.authenticate import Caller, requires
from billhook.auth.context import auth_of
from billhook.groups import manage, store
from billhook.groups.bodies import AnyNewProvider, AnyProviderChanges, GroupChanges, NewGroup
from billhook.groups.views import (
    AnyNewProviderView,
    AnyProviderView,
    GroupList,
    GroupView,
    ProviderList,
    group_view,
    new_provider_view,
    provider_view,
)
from billhook.web.documents import Envelope, errors
from billhook.web.paging import Cursor, Limit, meta_of, valid_cursor
from billhook.web.routes import BoundedRoute

router = APIRouter(tags=["groups"], route_class=BoundedRoute)

Reader = Annotated[Caller, requires("groups:read")]
Writer = Annotated[Caller, requires("groups:write")]


@router.get("/groups", summary="List the groups, the newest first", responses=errors(400, 401, 403))
async def list_groups(request: Request, caller: Reader, limit: Limit = 50, cursor: Cursor = None) -> GroupList:
    after = valid_cursor(cursor, "grp")
    async with auth_of(request).db.reading() as tx:
        found = await store.list_groups(tx, caller.organization_id, after=after, limit=limit + 1)
    return GroupList(data=[group_view(group) for group in found[:limit]], meta=meta_of(found, limit))


@router.post("/groups", summary="Create a group", status_code=201, responses=errors(400, 401, 403, 409, 413))
async def create_group(request: Request, caller: Writer, body: NewGroup) -> Envelope[GroupView]:
    auth = auth_of(request)
    async with auth.db.transaction() as tx:
        group = await manage.create_group(
            tx,
            body.name,
            organization_id=caller.organization_id,
            most=auth.settings.max_groups,
            author=caller.author,
            now=datetime.now(UTC),
        )
    return Envelope(data=group_view(group))


@router.get("/groups/{group_id}", summary="One group", responses=errors(400, 401, 403, 404))
async def get_group(request: Request, caller: Reader, group_id: str) -> Envelope[GroupView]:
    async with auth_of(request).db.reading() as tx:
        return Envelope(data=group_view(await manage.get_group(tx, group_id, author=caller.author)))


@router.patch("/groups/{group_id}", summary="Rename a group", responses=errors(400, 401, 403, 404, 409, 413))
async def change_group(request: Request, caller: Writer, group_id: str, body: GroupChanges) -> Envelope[GroupView]:
    async with auth_of(request).db.transaction() as tx:
        if body.name is None:
            return Envelope(data=group_view(await manage.get_group(tx, group_id, author=caller.author)))
        renamed = await manage.rename_group(tx, group_id, body.name, author=caller.author, now=datetime.now(UTC))
    return Envelope(data=group_view(renamed))


@router.get(
    "/groups/{group_id}/providers",
    summary="List the providers of a group, the newest first",
    responses=errors(400, 401, 403, 404),
)
async def list_providers(
    request: Request, caller: Reader, group_id: str, limit: Limit = 50, cursor: Cursor = None
) -> ProviderList:
    auth, author, after = auth_of(request), caller.author, valid_cursor(cursor, "prv")
    async with auth.db.reading() as tx:
        found = await manage.list_providers(tx, auth.vault, group_id, author=author, after=after, limit=limit + 1)
    return ProviderList(data=[provider_view(provider) for provider in found[:limit]], meta=meta_of(found, limit))


@router.post(
    "/groups/{group_id}/providers",
    summary="Add a provider to a group",
    status_code=201,
    responses=errors(400, 401, 403, 404, 409, 413),
)
async def create_provider(
    request: Request, caller: Writer, group_id: str, body: AnyNewProvider
) -> Envelope[AnyNewProviderView]:
    auth, most, now = auth_of(request), auth_of(request).settings.max_providers, datetime.now(UTC)
    async with auth.db.transaction() as tx:
        made = await manage.create_provider(
            tx, auth.vault, group_id, body.spec(), most=most, author=caller.author, now=now
        )
    return Envelope(data=new_provider_view(*made))


@router.get("/groups/{group_id}/providers/{provider_id}", summary="One provider", responses=errors(400, 401, 403, 404))
async def get_provider(request: Request, caller: Reader, group_id: str, provider_id: str) -> Envelope[AnyProviderView]:
    auth = auth_of(request)
    async with auth.db.reading() as tx:
        provider = await manage.get_provider(tx, auth.vault, group_id, provider_id, author=caller.author)
    return Envelope(data=provider_view(provider))


@router.patch(
    "/groups/{group_id}/providers/{provider_id}",
    summary="Change a provider",
    description="A list of headers replaces the one before; a value that is masked stays as it is. "
    "When `server_url` goes to another host, the headers must be given again with their values.",
    responses=errors(400, 401, 403, 404, 413),
)
async def change_provider(
    request: Request, caller: Writer, group_id: str, provider_id: str, body: AnyProviderChanges
) -> Envelope[AnyProviderView]:
    auth, changes = auth_of(request), body.values()
    async with auth.db.transaction() as tx:
        provider = await manage.change_provider(
            tx, auth.vault, group_id, provider_id, changes, author=caller.author, now=datetime.now(UTC)
        )
    return Envelope(data=provider_view(provider))


@router.post(
    "/groups/{group_id}/providers/{provider_id}/rotate-signing-secret",
    summary="Make a new signing secret",
    description="For 24 hours requests are signed with the one before as well, so that receivers can be changed.",
    responses=errors(400, 401, 403, 404),
)
async def rotate_signing_secret(
    request: Request, caller: Writer, group_id: str, provider_id: str
) -> Envelope[AnyNewProviderView]:
    auth = auth_of(request)
    async with auth.db.transaction() as tx:
        rotated = await manage.rotate_signing_secret(
            tx, auth.vault, group_id, provider_id, author=caller.author, now=datetime.now(UTC)
        )
    return Envelope(data=new_provider_view(*rotated))
