"""The type "Webhook": one signed HTTP request for each notification, to an address that the customer chose."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, ConfigDict, Field

from billhook import __version__
from billhook.errors import FieldError, InvalidParameters
from billhook.outbound.request import Asked, Outgoing
from billhook.providers import headers, urls
from billhook.providers.checks import checked
from billhook.providers.headers import masked, valid_headers
from billhook.providers.kinds import MASK, Config, Message, Stamp
from billhook.providers.signing import signature
from billhook.providers.urls import LONGEST_SENT, origin, sendable, valid_url, with_query

Headers = tuple[tuple[str, str], ...]

SHORTEST_SECRET = 6  # characters; to hide less would hide ordinary words
METHODS = ("GET", "POST")
CONTENT_TYPE = ("Content-Type", "application/json")
COMMON: Headers = (("User-Agent", f"Billhook/{__version__}"), ("Accept-Encoding", "identity"))
QUERY_IS_SIGNED = ("webhook-signed", "query")  # a GET has no body: its query is what the signature covers
OURS = ("Content-Type", "User-Agent", "Accept-Encoding", "webhook-id", "webhook-timestamp", "webhook-signed")
OPEN = frozenset((*OURS, "webhook-test"))  # shown as they were sent; no provider may choose one of these names
HIDDEN = {"webhook-signature": f"v1,{MASK}"}
LIKE_A_TOKEN = re.compile(r"(?=[^/]*[0-9A-Z])[^/]{20,}")  # chat services have the secret of a hook in its path
MESSAGE = "title=…&content=…"  # a GET has up to 8 KB of it, and the notification has it already
ENTERED_AGAIN = "must be entered again, because the server URL goes to another host"
GIVEN_AGAIN = "must be given again with their values, or as [], because the server URL goes to another host"
REQUIRED = {"server_url": None, "request_method": None, "request_headers": ()}

# Lengths are only described here: `configure` checks them, and names every problem of a body at once.
URL: dict[str, Any] = {"minLength": 1, "maxLength": urls.LONGEST_URL}
KEY: dict[str, Any] = {"minLength": 1, "maxLength": headers.LONGEST_KEY}
VALUE: dict[str, Any] = {"maxLength": headers.LONGEST_VALUE}
HEADERS: dict[str, Any] = {"maxItems": headers.MOST_HEADERS}


class Header(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: str = Field(json_schema_extra=KEY)
    value: str = Field(json_schema_extra=VALUE, description=f"Never shown again: `{MASK}` stands for it.")


class WebhookFields(BaseModel):
    server_url: str = Field(json_schema_extra=URL, description="The receiver's address: http or https.")
    request_method: Literal["GET", "POST"]
    request_headers: list[Header] = Field(
        default=[], json_schema_extra=HEADERS, description="Sent with every request, in this order."
    )


class Webhook:
    name = "Webhook"
    fields: type[BaseModel] = WebhookFields

    def configure(self, given: Mapping[str, Any], kept: Config | None) -> Config:
        if unknown := [FieldError(name, "is no field of a Webhook") for name in given if name not in REQUIRED]:
            raise InvalidParameters(errors=unknown)
        checks: dict[str, Callable[[Any], Any]] = {
            "server_url": _valid_url,
            "request_method": _valid_method,
            "request_headers": partial(valid_headers, kept=kept["request_headers"] if kept else ()),
        }
        wanted = {**given} if kept else {**REQUIRED, **given}
        if kept and kept["request_headers"] and _moves(given, kept):
            checks["request_headers"] = _headers_elsewhere
            wanted.setdefault("request_headers", None)
        return {**(kept or {}), **checked(**{name: partial(checks[name], wanted[name]) for name in wanted})}

    def show(self, config: Config) -> dict[str, Any]:
        return {**config, "request_headers": masked(config["request_headers"])}

    def secrets(self, config: Config) -> list[str]:
        """Values of headers, whole and without a first word such as `Bearer`, and what the URL has in its query."""
        values = [header["value"] for header in config["request_headers"]]
        query = urlsplit(config["server_url"]).query
        parts = [value.partition(" ")[2] for value in values] + [part.partition("=")[2] for part in query.split("&")]
        found = {each for each in (*values, query, *parts) if len(each) >= SHORTEST_SECRET}
        return sorted(found, key=len, reverse=True)

    def check(self, config: Config, message: Message) -> str | None:
        if config["request_method"] == "POST":
            return None
        # the first half spares the encoding of what is too long without it
        is_long = len(message.title) + len(message.content) > LONGEST_SENT
        if is_long or len(with_query(config["server_url"], message)) > LONGEST_SENT:
            return (
                f"too long for GET: the URL with title and content would have more than {LONGEST_SENT:,} bytes; "
                "shorten it, or switch it to POST"
            )
        return None

    def request(self, config: Config, message: Message, stamp: Stamp) -> Outgoing:
        own = [(header["key"], header["value"]) for header in config["request_headers"]]
        if config["request_method"] == "GET":
            url = with_query(config["server_url"], message)
            signed = _signed(stamp, url.partition("?")[2].encode())
            return Outgoing("GET", url, (*COMMON, *signed, QUERY_IS_SIGNED, *_test(stamp), *own), None)
        body = orjson.dumps({"title": message.title, "content": message.content})
        sent = (CONTENT_TYPE, *COMMON, *_signed(stamp, body), *_test(stamp), *own)
        return Outgoing("POST", sendable(config["server_url"]), sent, body)

    def asked(self, config: Config, sent: Outgoing) -> Asked:
        shown = [(name, value if name in OPEN else HIDDEN.get(name, MASK)) for name, value in sent.headers]
        return Asked(sent.method, _masked_url(config["server_url"], sent.method), tuple(shown))


@lru_cache(maxsize=4096)
def _masked_url(url: str, method: str) -> str:
    """Without the values that it may have in its query, and without parts of its path that may be a token."""
    parts = urlsplit(sendable(url))
    query = [MASK] * bool(parts.query) + [MESSAGE] * (method == "GET")
    base = f"{parts.scheme}://{parts.netloc}{LIKE_A_TOKEN.sub(MASK, parts.path)}"
    return f"{base}?{'&'.join(query)}" if query else base


def _signed(stamp: Stamp, payload: bytes) -> Headers:
    return (
        ("webhook-id", stamp.webhook_id),
        ("webhook-timestamp", str(stamp.timestamp)),
        ("webhook-signature", signature(stamp.secrets, stamp.webhook_id, stamp.timestamp, payload)),
    )


def _test(stamp: Stamp) -> Headers:
    return (("webhook-test", "true"),) if stamp.is_test else ()


def _valid_url(url: str | None) -> str:
    if url is None:
        raise InvalidParameters.of("server_url", "is required")
    return valid_url(url)


def _moves(given: Mapping[str, Any], kept: Config) -> bool:
    """Whether requests would reach somebody else from now on."""
    try:
        return "server_url" in given and origin(valid_url(given["server_url"])) != origin(kept["server_url"])
    except InvalidParameters:  # which its own check tells
        return False


def _headers_elsewhere(given: Sequence[Mapping[str, str]] | None) -> list[dict[str, str]]:
    """Who may change a provider may not read what is stored: so it is never sent to whom it was not entered for."""
    if given is None:
        raise InvalidParameters.of("request_headers", GIVEN_AGAIN)
    return valid_headers(given, (), nothing_kept=ENTERED_AGAIN)


def _valid_method(method: str | None) -> str:
    if method not in METHODS:
        raise InvalidParameters.of("request_method", f"must be {' or '.join(METHODS)}")
    return method
