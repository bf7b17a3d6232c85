"""POST /auth: client_id and client_secret in, an access token out. And the keys to check it with."""

import hashlib
from functools import lru_cache

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from billhook.auth.context import auth_of
from billhook.auth.issuer import Issued, Issuer
from billhook.auth.keys import JWKS_MAX_AGE
from billhook.errors import BillhookError, InvalidParameters
from billhook.settings import Network
from billhook.web.lanes import Answer, Steps, answer_to
from billhook.web.requests import caller_address, parse_object, require_content_type, text_field

NEVER_STORED = {"Cache-Control": "no-store"}
TOKEN_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
KEYS_HEADERS = {
    "Cache-Control": f"public, max-age={int(JWKS_MAX_AGE.total_seconds())}",
    "Access-Control-Allow-Origin": "*",  # the keys are public; a page may check a token too
}


class TokenEndpoint:
    """POST /auth, past the framework: that would cost as much again as the signature (docs/decisions/0003)."""

    largest_body = 8 * 1024

    def __init__(self, issuer: Issuer, trusted_proxies: tuple[Network, ...]) -> None:
        self.issuer = issuer
        self.trusted_proxies = trusted_proxies

    def __call__(self, scope: Scope, body: bytes) -> Steps[Answer]:
        try:
            client_id, client_secret = _read_credentials(scope, body)
            address = caller_address(scope, self.trusted_proxies)
            verdict = self.issuer.authenticate(client_id, client_secret, address=address)
            token = token_answer((yield from self.issuer.issue(verdict, address=address)))
        except BillhookError as error:
            return answer_to(error)
        return Answer(201, [*TOKEN_HEADERS, (b"content-length", b"%d" % len(token))], token)

    def refuse(self, error: BillhookError) -> Answer:
        """The contract knows no 413 here: a body that cannot be read is a bad request like any other."""
        return answer_to(InvalidParameters(error.message))


def _read_credentials(scope: Scope, body: bytes) -> tuple[str, str]:
    """Decided by shape alone, before anything is looked up."""
    require_content_type(scope, "application/json")
    fields = parse_object(body)
    return text_field(fields, "client_id"), text_field(fields, "client_secret")


def token_answer(issued: Issued) -> bytes:
    before, after = _around_token(issued.expires_in, issued.scope, issued.not_before)
    return before + issued.token + after  # which has no character that JSON would escape


@lru_cache(maxsize=1024)  # most clients have the same
def _around_token(expires_in: int, scope: str, not_before: int) -> tuple[bytes, bytes]:
    data = {
        "access_token": "",
        "expires_in": expires_in,
        "refresh_expires_in": 0,
        "token_type": "Bearer",
        "not-before-policy": not_before,
        "session_state": "",
        "scope": scope,
    }
    before, token, after = orjson.dumps({"code": "success", "data": data}).partition(b'"access_token":"')
    return before + token, after


async def publish_keys(request: Request) -> Response:
    keys = auth_of(request).registry.published_keys()
    body = orjson.dumps({"keys": [key.jwk.as_dict(private=False) for key in keys]})
    headers = KEYS_HEADERS | {"ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")
