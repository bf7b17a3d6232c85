"""Reading requests: bodies with a limit on size and time, JSON that is really JSON, and where a caller comes from."""

import asyncio
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from billhook.errors import InvalidParameters, TooLarge
from billhook.settings import Network

BODY_SECONDS = 10.0  # a body that trickles in slower than this is not waited for
UNKNOWN_ADDRESS = "unknown"  # of a caller over a local socket


async def read_body(request: Request, *, limit: int) -> bytes:
    """The whole body, or TooLarge as soon as it is clear that it is longer than `limit`."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise TooLarge(f"the body must not be larger than {limit} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise TooLarge(f"the body must not be larger than {limit} bytes")
    except (TimeoutError, ClientDisconnect):
        raise InvalidParameters("the body did not arrive in time") from None
    return bytes(body)


def require_content_type(request: Request, wanted: str) -> None:
    given = request.headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if given != wanted:
        raise InvalidParameters(f"Content-Type must be {wanted}")


def parse_object(body: bytes) -> dict[str, Any]:
    """orjson refuses what the standard library lets through: lone surrogates, NaN, bottomless nesting."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InvalidParameters("the body must be JSON in UTF-8") from None
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


def caller_address(request: Request, trusted_proxies: tuple[Network, ...]) -> str:
    """Who is at the other end. A proxy is believed only when the settings name its network."""
    peer = request.client.host if request.client else UNKNOWN_ADDRESS
    if not trusted_proxies:
        return peer
    return forwarded_for(peer, request.headers.getlist("x-forwarded-for"), trusted_proxies)


def forwarded_for(peer: str, headers: list[str], trusted: tuple[Network, ...]) -> str:
    """The nearest address that is not one of our proxies, walking back from the peer. Pure."""
    hops = [hop.strip() for header in headers for hop in header.split(",")]
    address = peer
    while hops and _is_in(address, trusted):
        candidate = hops.pop()
        if not _is_address(candidate):
            break
        address = candidate
    return address


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(text: str, networks: tuple[Network, ...]) -> bool:
    if not _is_address(text):
        return False
    address = ip_address(text)
    return any(address.version == network.version and address in network for network in networks)
