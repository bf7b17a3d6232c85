"""The OpenAPI description of the routes of this package that FastAPI does not serve."""

from typing import Any

from billhook.auth.model import SCOPES
from billhook.web.documents import REASONS

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}

Schema = dict[str, Any]


def _object(properties: Schema, *, required: list[str] | None = None) -> Schema:
    return {"type": "object", "properties": properties, "required": required or list(properties)}


def _answer(description: str, schema: Schema | None = None) -> Schema:
    content = {"content": {"application/json": {"schema": schema}}} if schema else {}
    return {"description": description} | content


def _problems(*statuses: int, schema: str = "Problem") -> Schema:
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {str(status): _answer(REASONS[status], reference) for status in statuses}


def _body(media_type: str, schema: Schema) -> Schema:
    return {"required": True, "content": {media_type: {"schema": schema}}}


TOKEN_DATA = _object(
    {
        "access_token": TEXT | {"description": "A JWT (RFC 9068), signed with ES256."},
        "expires_in": NUMBER | {"description": "Seconds."},
        "refresh_expires_in": NUMBER | {"const": 0},
        "token_type": TEXT | {"const": "Bearer"},
        "not-before-policy": NUMBER | {"description": "Unix seconds; tokens issued earlier do not count."},
        "session_state": TEXT | {"const": ""},
        "scope": TEXT | {"description": "Space-separated."},
    }
)

CREDENTIAL = TEXT | {"minLength": 1, "maxLength": 4000, "pattern": "^[^\\u0000]+$"}
OPTIONAL_CREDENTIALS = {"client_id": TEXT, "client_secret": TEXT}
BASIC_OR_FORM: list[Schema] = [{"basic": []}, {}]
FORM = "application/x-www-form-urlencoded"

AUTH = {
    "summary": "Trade client credentials for an access token",
    "tags": ["tokens"],
    "requestBody": _body("application/json", _object({"client_id": CREDENTIAL, "client_secret": CREDENTIAL})),
    "responses": {
        "201": _answer("A token.", _object({"code": TEXT | {"const": "success"}, "data": TOKEN_DATA})),
        **_problems(400, 401, 429),
    },
}

JWKS = {
    "summary": "The keys that tokens are signed with",
    "tags": ["tokens"],
    "responses": {"200": _answer("A JWK set.", _object({"keys": {"type": "array", "items": {"type": "object"}}}))},
}

OAUTH_TOKEN = {
    "summary": "The same for OAuth tools (RFC 6749 client credentials)",
    "tags": ["oauth"],
    "security": BASIC_OR_FORM,
    "requestBody": _body(
        FORM,
        _object(
            {"grant_type": TEXT | {"const": "client_credentials"}, "scope": TEXT} | OPTIONAL_CREDENTIALS,
            required=["grant_type"],
        ),
    ),
    "responses": {
        "200": _answer(
            "A token.", _object({"access_token": TEXT, "token_type": TEXT, "expires_in": NUMBER, "scope": TEXT})
        ),
        **_problems(400, 401, 429, schema="OAuthProblem"),
    },
}

INTROSPECT = {
    "summary": "What a token says (RFC 7662)",
    "tags": ["oauth"],
    "security": BASIC_OR_FORM,
    "requestBody": _body(FORM, _object({"token": TEXT} | OPTIONAL_CREDENTIALS, required=["token"])),
    "responses": {
        "200": _answer("Its claims, or only that it is not active.", _object({"active": BOOLEAN})),
        **_problems(400, 401, 429, schema="OAuthProblem"),
    },
}

REVOKE = {
    "summary": "End one token (RFC 7009)",
    "tags": ["oauth"],
    "security": BASIC_OR_FORM,
    "requestBody": _body(FORM, _object({"token": TEXT} | OPTIONAL_CREDENTIALS, required=["token"])),
    "responses": {
        "200": _answer("It no longer counts, or was none of the caller's."),
        **_problems(400, 401, 429, schema="OAuthProblem"),
    },
}

METADATA = {
    "summary": "What OAuth tools need to know (RFC 8414)",
    "tags": ["oauth"],
    "responses": {"200": _answer("The metadata.", _object({"issuer": TEXT, "token_endpoint": TEXT}))},
}

PATHS: Schema = {
    "/auth": {"post": AUTH},
    "/.well-known/jwks.json": {"get": JWKS},
    "/oauth2/token": {"post": OAUTH_TOKEN},
    "/oauth2/introspect": {"post": INTROSPECT},
    "/oauth2/revoke": {"post": REVOKE},
    "/.well-known/oauth-authorization-server": {"get": METADATA},
}

SCHEMAS: Schema = {
    "OAuthProblem": _object({"error": TEXT, "error_description": TEXT, "code": TEXT, "message": TEXT}),
}

SECURITY_SCHEMES: Schema = {"basic": {"type": "http", "scheme": "basic", "description": "client_id and client_secret."}}

DESCRIPTION = "Scopes:\n\n" + "\n".join(f"- `{name}`: {meaning}" for name, meaning in SCOPES.items())
