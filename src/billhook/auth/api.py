"""/api/v1/me and /api/v1/clients."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from starlette.requests import Request

from billhook.auth import manage, model, store
from billhook.auth.authenticate import Caller, requires
from billhook.auth.bodies import ClientChanges, NewClient, Rotation
from billhook.auth.context import auth_of
from billhook.auth.manage import ClientSpec
from billhook.auth.views import ClientView, ListEnvelope, Me, NewClientView, client_view, new_client_view
from billhook.web.documents import Envelope, errors
from billhook.web.paging import Cursor, Limit, meta_of, valid_cursor
from billhook.web.routes import BoundedRoute

router = APIRouter(tags=["clients"], route_class=BoundedRoute)

Reader = Annotated[Caller, requires("clients:read")]
Writer = Annotated[Caller, requires("clients:write")]
Anyone = Annotated[Caller, requires()]


@router.get("/me", summary="Who am I?", responses=errors(401))
async def me(caller: Anyone) -> Envelope[Me]:
    return Envelope(data=Me.of(caller))


@router.get("/clients", summary="List the clients, the newest first", responses=errors(400, 401, 403))
async def list_clients(request: Request, caller: Reader, limit: Limit = 50, cursor: Cursor = None) -> ListEnvelope:
    after = valid_cursor(cursor, "cli")
    async with auth_of(request).db.reading() as tx:
        found = await store.list_clients(tx, caller.organization_id, after=after, limit=limit + 1)
    return ListEnvelope(data=[client_view(client) for client in found[:limit]], meta=meta_of(found, limit))


@router.post("/clients", summary="Register a client", status_code=201, responses=errors(400, 401, 403, 413))
async def create_client(request: Request, caller: Writer, body: NewClient) -> Envelope[NewClientView]:
    auth, spec = auth_of(request), ClientSpec(**body.values())
    async with auth.db.transaction() as tx:
        client, secret = await manage.create(
            tx, auth.vault, spec, organization_id=caller.organization_id, author=caller.author, now=datetime.now(UTC)
        )
    await auth.registry.refresh()
    return Envelope(data=new_client_view(client, secret))


@router.get("/clients/{client_id}", summary="One client", responses=errors(400, 401, 403, 404))
async def get_client(request: Request, caller: Reader, client_id: str) -> Envelope[ClientView]:
    async with auth_of(request).db.reading() as tx:
        return Envelope(data=client_view(await manage.get(tx, client_id, author=caller.author)))


@router.patch("/clients/{client_id}", summary="Change a client", responses=errors(400, 401, 403, 404, 409, 413))
async def change_client(request: Request, caller: Writer, client_id: str, body: ClientChanges) -> Envelope[ClientView]:
    auth = auth_of(request)
    async with auth.db.transaction() as tx:
        client = await manage.change(tx, client_id, body.values(), author=caller.author, now=datetime.now(UTC))
    await auth.registry.refresh()
    return Envelope(data=client_view(client))


@router.delete(
    "/clients/{client_id}",
    summary="Revoke a client for good",
    description="Its secrets and tokens stop working at once. It stays listed, with the state `revoked`.",
    responses=errors(400, 401, 403, 404),
)
async def revoke_client(request: Request, caller: Writer, client_id: str) -> Envelope[ClientView]:
    auth = auth_of(request)
    async with auth.db.transaction() as tx:
        client = await manage.revoke(tx, client_id, author=caller.author, now=datetime.now(UTC))
    await auth.registry.refresh()
    return Envelope(data=client_view(client))


@router.post("/clients/{client_id}/rotate", summary="Make a new secret", responses=errors(400, 401, 403, 404, 409, 413))
async def rotate_client(
    request: Request, caller: Writer, client_id: str, body: Rotation | None = None
) -> Envelope[NewClientView]:
    auth, grace = auth_of(request), model.parse_grace((body or Rotation()).grace)
    async with auth.db.transaction() as tx:
        client, secret = await manage.rotate(
            tx, auth.vault, client_id, grace=grace, author=caller.author, now=datetime.now(UTC)
        )
    await auth.registry.refresh()
    return Envelope(data=new_client_view(client, secret))


@router.post(
    "/clients/{client_id}/revoke-tokens",
    summary="End all tokens issued so far",
    responses=errors(400, 401, 403, 404, 409),
)
async def revoke_tokens(request: Request, caller: Writer, client_id: str) -> Envelope[ClientView]:
    auth = auth_of(request)
    async with auth.db.transaction() as tx:
        client = await manage.revoke_tokens(tx, client_id, author=caller.author, now=datetime.now(UTC))
    await auth.registry.refresh()
    return Envelope(data=client_view(client))


@router.delete(
    "/clients/{client_id}/secrets/{secret_id}",
    summary="End one of two live secrets",
    responses=errors(400, 401, 403, 404, 409),
)
async def revoke_secret(request: Request, caller: Writer, client_id: str, secret_id: str) -> Envelope[ClientView]:
    auth = auth_of(request)
    async with auth.db.transaction() as tx:
        client = await manage.revoke_secret(tx, client_id, secret_id, author=caller.author, now=datetime.now(UTC))
    await auth.registry.refresh()
    return Envelope(data=client_view(client))
