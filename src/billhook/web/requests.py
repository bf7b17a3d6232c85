"""Reading requests: bodies with a limit on size, JSON that is really JSON, and where a caller comes from.

All of it works on the bare ASGI scope: POST /auth has no room for a request object (docs/decisions/0003).
"""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from random import Random
from typing import Any

import orjson
from starlette.types import Receive, Scope

from billhook.errors import InvalidParameters, TooLarge
from billhook.settings import Network

# An id that a caller brings along is kept, if it is harmless; a secret is longer.
GIVEN_ID = re.compile(rb"[0-9A-Za-z._-]{8,48}")
_dice = Random()  # for ids alone: told apart is all they must be, and a system call for each costs 2 us
UNKNOWN_ADDRESS = "unknown"  # of a caller over a local socket


async def read_body(scope: Scope, receive: Receive, *, limit: int) -> bytes:
    """The whole body, or TooLarge as soon as it is clear that it is longer than `limit`."""
    declared = header(scope, b"content-length")
    if len(declared) > 18 or (declared and int(declared) > limit):  # the server has seen to it that it is a number
        raise TooLarge(f"the body must not be larger than {limit} bytes")
    body: bytes = b""
    more = True
    while more:  # how long this may take is bounded by the server, for all its connections at once
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidParameters("the body did not arrive")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise TooLarge(f"the body must not be larger than {limit} bytes")
    return body


def header(scope: Scope, name: bytes) -> str:
    """The first header of that name (in lower case), or nothing."""
    for given, value in scope["headers"]:
        if given == name:
            return str(value.decode("latin-1"))
    return ""


def request_id_of(scope: Scope) -> str:
    """The caller's own, or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and GIVEN_ID.fullmatch(value):
            return str(value.decode())
    return f"{_dice.getrandbits(64):016x}"


def require_content_type(scope: Scope, wanted: str) -> None:
    given = header(scope, b"content-type")
    if given != wanted and given.split(";", 1)[0].strip().lower() != wanted:
        raise InvalidParameters(f"Content-Type must be {wanted}")


def parse_json(body: bytes) -> Any:
    """orjson refuses what the standard library lets through: lone surrogates, NaN, bottomless nesting."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InvalidParameters("the body must be JSON in UTF-8") from None


def parse_object(body: bytes) -> dict[str, Any]:
    parsed = parse_json(body)
    if not isinstance(parsed, dict):
        raise InvalidParameters("the body must be a JSON object")
    return parsed


def text_field(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        raise InvalidParameters.of(name, "is required")
    if not isinstance(value, str):
        raise InvalidParameters.of(name, "must be a string")
    if not value:
        raise InvalidParameters.of(name, "must not be empty")
    if "\0" in value:
        raise InvalidParameters.of(name, "must not contain a NUL")
    return value


def caller_address(scope: Scope, trusted_proxies: tuple[Network, ...]) -> str:
    """Who is at the other end. A proxy is believed only when the settings name its network."""
    client = scope.get("client")
    peer: str = client[0] if client else UNKNOWN_ADDRESS
    if not trusted_proxies:
        return peer
    forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return forwarded_for(peer, forwarded, trusted_proxies)


def forwarded_for(peer: str, headers: list[str], trusted: tuple[Network, ...]) -> str:
    """The nearest address that is not one of our proxies, walking back from the peer. Pure."""
    hops = [hop.strip() for line in headers for hop in line.split(",")]
    address = peer
    while hops and _is_in(address, trusted):
        candidate = hops.pop()
        if parse_address(candidate) is None:
            break
        address = candidate
    return address


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 caller on an IPv6 socket is an IPv4 caller. A zone after % can be any text, so it is no address here."""
    if "%" in text:
        return None
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


def _is_in(text: str, networks: tuple[Network, ...]) -> bool:
    address = parse_address(text)
    return address is not None and any(address in network for network in networks)
