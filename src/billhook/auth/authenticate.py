"""The one check of Bearer tokens, for every route that takes one."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import Depends, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import Request

from billhook.accounts.audit import Actor
from billhook.auth.context import Auth, auth_of
from billhook.auth.manage import Author
from billhook.auth.tokens import Claims, read_token
from billhook.errors import Forbidden, Unauthenticated

# Only describes the scheme in the OpenAPI document: the check below reads the header itself.
scheme = HTTPBearer(bearerFormat="JWT", scheme_name="bearer", auto_error=False, description="A token from POST /auth.")


@dataclass(frozen=True)
class Caller:
    client_id: str
    organization_id: str
    scopes: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime

    @property
    def author(self) -> Author:
        actor = Actor(f"client:{self.client_id}", self.organization_id)
        return Author(actor, self.organization_id, frozenset(self.scopes))


def authenticate(request: Request) -> Caller:
    """Who calls, or Unauthenticated. A request without credentials is told no reason, as RFC 6750 §3.1 asks."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Unauthenticated(detail="no bearer token")
    claims = check_token(auth_of(request), token.strip())
    issued_at, expires_at = (datetime.fromtimestamp(at, UTC) for at in (claims.issued_at, claims.expires_at))
    return Caller(claims.client_id, claims.organization_id, tuple(claims.scope.split()), issued_at, expires_at)


def check_token(auth: Auth, token: str) -> Claims:
    """Signature, type, issuer, audience and times; then what has happened to the client since it was issued."""
    registry = auth.registry
    registry.must_be_fresh()
    claims = read_token(token, registry.published_keys(), issuer=auth.settings.base_url, now=time.time())
    client = registry.clients.get(claims.client_id)
    # a later epoch than we know of is of a process that knows more than this one
    if client is None or not client.is_active or claims.epoch < client.epoch or claims.jti in registry.revoked:
        raise Unauthenticated(challenge='Bearer error="invalid_token"', detail="revoked")
    still_held = client.scope.split()
    return claims._replace(scope=" ".join(scope for scope in claims.scope.split() if scope in still_held))


def authorize(request: Request, scope: str | None) -> Caller:
    """Who calls, and holds `scope`."""
    found = authenticate(request)
    if scope is not None and scope not in found.scopes:
        raise Forbidden(f"the token does not hold {scope}", scope=scope)
    return found


def requires(scope: str | None = None) -> Callable[..., Caller]:
    """A dependency: the caller, who must hold `scope`."""

    async def caller(
        request: Request,
        _described: Annotated[HTTPAuthorizationCredentials | None, Security(scheme, scopes=[scope] if scope else [])],
    ) -> Caller:
        return authorize(request, scope)

    caller.before_body = partial(authorize, scope=scope)  # type: ignore[attr-defined]  # for BoundedRoute
    return Depends(caller)  # type: ignore[no-any-return]
