"""POST /auth: client_id and client_secret in, an access token out. And the keys to check it with."""

import hashlib

import orjson
from starlette.requests import Request
from starlette.responses import Response

from billhook.auth.context import address_of, auth_of
from billhook.auth.issuer import Issued
from billhook.auth.keys import JWKS_MAX_AGE
from billhook.errors import InvalidParameters, TooLarge
from billhook.web.requests import parse_object, read_body, require_content_type, text_field
from billhook.web.responses import success

LARGEST_BODY = 8 * 1024
NEVER_STORED = {"Cache-Control": "no-store"}
KEYS_HEADERS = {
    "Cache-Control": f"public, max-age={int(JWKS_MAX_AGE.total_seconds())}",
    "Access-Control-Allow-Origin": "*",  # the keys are public; a page may check a token too
}


async def issue_token(request: Request) -> Response:
    client_id, client_secret = await _read_credentials(request)
    issuer, address = auth_of(request).issuer, address_of(request)
    verdict = issuer.authenticate(client_id, client_secret, address=address)
    return success(_token_data(issuer.issue(verdict, address=address)), status=201, headers=NEVER_STORED)


async def _read_credentials(request: Request) -> tuple[str, str]:
    """Decided by shape alone, before anything is looked up."""
    require_content_type(request, "application/json")
    try:
        fields = parse_object(await read_body(request, limit=LARGEST_BODY))
    except TooLarge as error:
        raise InvalidParameters(error.message) from None
    return text_field(fields, "client_id"), text_field(fields, "client_secret")


def _token_data(issued: Issued) -> dict[str, object]:
    return {
        "access_token": issued.token,
        "expires_in": issued.expires_in,
        "refresh_expires_in": 0,
        "token_type": "Bearer",
        "not-before-policy": issued.not_before,
        "session_state": "",
        "scope": issued.scope,
    }


async def publish_keys(request: Request) -> Response:
    keys = auth_of(request).registry.published_keys()
    body = orjson.dumps({"keys": [key.jwk.as_dict(private=False) for key in keys]})
    headers = KEYS_HEADERS | {"ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")
