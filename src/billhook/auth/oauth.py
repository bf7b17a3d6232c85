"""The OAuth door, for tools that cannot speak POST /auth: RFC 6749 client credentials, 7662, 7009 and 8414."""

import binascii
from base64 import b64decode
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import wraps
from urllib.parse import parse_qsl, unquote_plus

from starlette.requests import Request
from starlette.responses import Response

from billhook.accounts.audit import Actor
from billhook.auth.authenticate import check_token
from billhook.auth.context import Auth, address_of, auth_of
from billhook.auth.credentials import Verdict
from billhook.auth.endpoint import NEVER_STORED, TokenEndpoint
from billhook.auth.model import SCOPES
from billhook.auth.revoked import revoke_token
from billhook.auth.tokens import Claims
from billhook.errors import BillhookError, InvalidParameters, TooLarge, Unauthenticated
from billhook.web.lanes import at_once
from billhook.web.problems import body_of
from billhook.web.requests import read_body, require_content_type
from billhook.web.responses import json_response

CHALLENGE = 'Basic realm="billhook"'
MOST_FIELDS = 50

Form = dict[str, str]
Handler = Callable[[Request], Awaitable[Response]]


class OAuthProblem(InvalidParameters):
    """A 400 with one of RFC 6749's own error names."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


def oauth_errors(handler: Handler) -> Handler:
    """Answer errors in RFC 6749's shape and in ours at once: OAuth tools read `error`, our own clients read `code`."""

    @wraps(handler)
    async def wrapped(request: Request) -> Response:
        try:
            return await handler(request)
        except BillhookError as error:
            if error.status >= 500:
                raise
            names = {"error": _oauth_name(error), "error_description": error.message}
            return json_response(
                names | body_of(error), status=error.status, headers=NEVER_STORED | dict(error.headers)
            )

    return wrapped


def _oauth_name(error: BillhookError) -> str:
    if isinstance(error, OAuthProblem):
        return error.error
    return "invalid_client" if isinstance(error, Unauthenticated) else "invalid_request"


@oauth_errors
async def token(request: Request) -> Response:
    form, verdict = await _authenticated_form(request)
    grant = form.get("grant_type")
    if grant is None:
        raise InvalidParameters.of("grant_type", "is required")
    if grant != "client_credentials":
        raise OAuthProblem("unsupported_grant_type", "grant_type must be client_credentials")
    scope = _narrowed(form.get("scope"), verdict.client.scope)
    issued = at_once(auth_of(request).issuer.issue(verdict, address=address_of(request), scope=scope))
    answer = {"access_token": issued.token.decode(), "token_type": "Bearer", "expires_in": issued.expires_in}
    return json_response(answer | {"scope": issued.scope}, headers=NEVER_STORED | {"Pragma": "no-cache"})


@oauth_errors
async def introspect(request: Request) -> Response:
    """RFC 7662: what a token of the caller's own organization says; every other token is just not active."""
    form, verdict = await _authenticated_form(request)
    auth = auth_of(request)
    claims = _readable(auth, _token_field(form))
    if claims is None or claims.organization_id != verdict.client.organization_id:
        return json_response({"active": False}, headers=NEVER_STORED)
    return json_response({"active": True} | _described(claims, auth.settings.base_url), headers=NEVER_STORED)


@oauth_errors
async def revoke(request: Request) -> Response:
    """RFC 7009: a token that is not the caller's own, or not a token, is answered alike and left alone."""
    form, verdict = await _authenticated_form(request)
    auth = auth_of(request)
    claims = _readable(auth, _token_field(form))
    if claims is not None and claims.client_id == verdict.client.id:
        expires_at = datetime.fromtimestamp(claims.expires_at, UTC)
        actor = Actor(f"client:{claims.client_id}", claims.organization_id)
        async with auth.db.transaction() as tx:
            await revoke_token(tx, claims.jti, expires_at=expires_at, actor=actor, now=datetime.now(UTC))
        await auth.registry.refresh()
    return Response(status_code=200, headers=NEVER_STORED)


async def metadata(request: Request) -> Response:
    base = auth_of(request).settings.base_url
    methods = ["client_secret_basic", "client_secret_post"]
    document = {
        "issuer": base,
        "token_endpoint": f"{base}/oauth2/token",
        "jwks_uri": f"{base}/.well-known/jwks.json",
        "introspection_endpoint": f"{base}/oauth2/introspect",
        "revocation_endpoint": f"{base}/oauth2/revoke",
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
        "scopes_supported": list(SCOPES),
        "token_endpoint_auth_methods_supported": methods,
        "introspection_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
    }
    return json_response(document, headers={"Cache-Control": "public, max-age=3600"})


async def _authenticated_form(request: Request) -> tuple[Form, Verdict]:
    form = await _read_form(request)
    client_id, client_secret = _credentials(request, form)
    issuer = auth_of(request).issuer
    return form, issuer.authenticate(client_id, client_secret, address=address_of(request), challenge=CHALLENGE)


async def _read_form(request: Request) -> Form:
    require_content_type(request.scope, "application/x-www-form-urlencoded")
    try:
        body = await read_body(request.scope, request.receive, limit=TokenEndpoint.largest_body)
        pairs = parse_qsl(body.decode(), keep_blank_values=False, max_num_fields=MOST_FIELDS, errors="strict")
    except TooLarge as error:
        raise InvalidParameters(error.message) from None
    except ValueError:
        raise InvalidParameters("the body must be a form in UTF-8") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise InvalidParameters("no parameter may be given twice")  # RFC 6749 §3.2
    return form


def _credentials(request: Request, form: Form) -> tuple[str, str]:
    """From the Authorization header or from the form, never from both (RFC 6749 §2.3)."""
    header = request.headers.get("authorization")
    if header is not None:
        if "client_secret" in form:
            raise InvalidParameters("the client must authenticate in one way only")
        return _basic(header)
    if "client_id" not in form or "client_secret" not in form:
        raise Unauthenticated(challenge=CHALLENGE, detail="no credentials")
    return form["client_id"], form["client_secret"]


def _basic(header: str) -> tuple[str, str]:
    kind, _, encoded = header.partition(" ")
    try:
        user, colon, password = b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise Unauthenticated(challenge=CHALLENGE, detail="malformed Basic") from None
    if kind.lower() != "basic" or not colon:
        raise Unauthenticated(challenge=CHALLENGE, detail="not Basic")
    return unquote_plus(user), unquote_plus(password)


def _narrowed(wanted: str | None, held: str) -> str:
    if wanted is None:
        return held
    names = wanted.split()
    if not names or not set(names) <= set(held.split()):
        raise OAuthProblem("invalid_scope", f"scope must be among: {held}")
    return " ".join(name for name in held.split() if name in names)


def _token_field(form: Form) -> str:
    if "token" not in form:
        raise InvalidParameters.of("token", "is required")
    return form["token"]


def _readable(auth: Auth, token: str) -> Claims | None:
    try:
        return check_token(auth, token)
    except Unauthenticated:
        return None


def _described(claims: Claims, issuer: str) -> dict[str, object]:
    return {
        "iss": issuer,
        "aud": issuer,
        "sub": claims.client_id,
        "client_id": claims.client_id,
        "token_type": "Bearer",
        "scope": claims.scope,
        "iat": claims.issued_at,
        "nbf": claims.issued_at,
        "exp": claims.expires_at,
        "jti": claims.jti,
        "org": claims.organization_id,
    }
