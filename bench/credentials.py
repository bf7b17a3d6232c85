"""A client's credentials, and the exact bytes of the requests that exchange them for a token and use it."""

import json
from dataclasses import dataclass
from urllib.parse import urlencode


@dataclass(frozen=True)
class Credentials:
    client_id: str
    client_secret: str


def auth_request(credentials: Credentials, *, forwarded_for: str | None = None) -> str:
    """Billhook's `POST /auth`."""
    body = json.dumps({"client_id": credentials.client_id, "client_secret": credentials.client_secret})
    forwarded = f"X-Forwarded-For: {forwarded_for}\r\n" if forwarded_for else ""
    return post("/auth", body, content_type="application/json", more=forwarded)


def oauth_request(credentials: Credentials, *, resource: str, scope: str) -> str:
    """RFC 6749 client credentials with the secret in the body, for peers that speak OAuth."""
    form = {
        "grant_type": "client_credentials",
        "client_id": credentials.client_id,
        "client_secret": credentials.client_secret,
        "resource": resource,
        "scope": scope,
    }
    return post("/token", urlencode(form), content_type="application/x-www-form-urlencoded")


def notification_request(token: str, group_id: str, body: str) -> str:
    """Billhook's `POST /api/v1/groups/{id}/notifications`. `body` must be ASCII."""
    authorization = f"Authorization: Bearer {token}\r\n"
    path = f"/api/v1/groups/{group_id}/notifications"
    return post(path, body, content_type="application/json", more=authorization)


def post(path: str, body: str, *, content_type: str, more: str = "") -> str:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}"
