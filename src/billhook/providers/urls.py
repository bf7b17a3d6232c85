"""Receivers' addresses: what makes one valid, and the form in which it is sent. Pure.

Which networks may be reached is not decided here but where the socket is opened, since a name can change its address.
"""

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NoReturn
from urllib.parse import SplitResult, quote, urlsplit

import idna

from billhook.errors import InvalidParameters
from billhook.providers.kinds import Message

FIELD = "server_url"
LONGEST_URL = 2048
LONGEST_SENT = 8000  # bytes, with the query: what common servers take in a request line (8 KiB), and a little room
LONGEST_HOST = 253  # characters in a DNS name
PORTS = {"http": 80, "https": 443}

UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f\\\s\ud800-\udfff]")
LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")  # "_" is no host name, but Docker's services have it
BRACKETED = re.compile(r"\[[^\[\]]*\](:[0-9]*)?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
AS_WRITTEN = "".join(map(chr, range(0x21, 0x7F)))  # nothing of ASCII is encoded again, least of all "%"


def valid_url(text: str) -> str:
    """The URL as it was written, or an error. No message repeats it: there may be a secret in it."""
    url = text.strip(" ")
    if not url:
        _refuse("enter the address of the receiver")
    if len(url) > LONGEST_URL:
        _refuse(f"must have at most {LONGEST_URL:,} characters")
    if UNSAFE.search(url):
        _refuse("must not have spaces, control characters or backslashes")
    if "#" in url:
        _refuse("must not have a fragment (#): it would never be sent")
    if len(_sent(_split(url))) > LONGEST_SENT:
        _refuse(f"must not be longer than {LONGEST_SENT:,} bytes when it is sent")
    return url


@lru_cache(maxsize=4096)
def sendable(url: str) -> str:
    """The same in ASCII: the host after IDNA, the rest percent-encoded; what is already encoded stays."""
    return _sent(_split(url))


def origin(url: str) -> tuple[str, str, int]:
    """Whom a request reaches: scheme, host and port."""
    parts = urlsplit(sendable(url))
    return parts.scheme, parts.hostname or "", parts.port or PORTS[parts.scheme]


def with_query(url: str, message: Message) -> str:
    """The URL to GET: the message behind the URL's own query, which stays byte for byte."""
    title, content = quote(message.title, safe=""), quote(message.content, safe="")
    return f"{_open_ended(url)}title={title}&content={content}"


@lru_cache(maxsize=4096)
def _open_ended(url: str) -> str:
    sent = sendable(url)
    if "?" not in sent:
        return sent + "?"
    return sent if sent.endswith(("?", "&")) else sent + "&"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # also a host that turns into something else under Unicode's normal forms
        _refuse("has no valid host and port")
    if parts.scheme not in ("http", "https") or url[len(parts.scheme) :][:3] != "://":
        _refuse("must begin with http:// or https://")
    if "@" in parts.netloc:
        _refuse("must not have a user name or password; put them into a request header, such as Authorization")
    if port == 0:
        _refuse("must have a port from 1 to 65535")
    return parts


def _sent(parts: SplitResult) -> str:
    port = f":{parts.port}" if parts.port is not None else ""
    base = f"{parts.scheme}://{_host(parts)}{port}{_encoded(parts.path) or '/'}"
    return f"{base}?{_encoded(parts.query)}" if parts.query else base


def _encoded(text: str) -> str:
    return text if text.isascii() else quote(text, safe=AS_WRITTEN)


def _host(parts: SplitResult) -> str:
    written = parts.hostname or ""
    if not written:
        _refuse("must name a host")
    if "[" in parts.netloc:
        if not BRACKETED.fullmatch(parts.netloc):
            _refuse("must have a valid IPv6 address in brackets")
        return f"[{_ipv6(written)}]"
    host = written if written.isascii() else _idna(written)
    labels = host.removesuffix(".").split(".")
    if NUMBER.fullmatch(labels[-1]):  # then every resolver takes it for an IPv4 address, however odd
        return _ipv4(written)
    if len(host) > LONGEST_HOST or not all(LABEL.fullmatch(label) for label in labels):
        _refuse("must name a valid host")
    return host


def _idna(host: str) -> str:
    try:
        return idna.encode(host, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        _refuse("must name a valid host; one that IDNA does not allow can be written as xn--…")


def _ipv4(host: str) -> str:
    try:
        return str(IPv4Address(host))
    except AddressValueError:
        _refuse("must have an IPv4 address in its usual form: four decimal numbers without leading zeros")


def _ipv6(host: str) -> str:
    try:
        address = IPv6Address(host)
    except AddressValueError:
        _refuse("must have a valid IPv6 address in brackets")
    if address.scope_id is not None:
        _refuse("must not have an IPv6 zone (%): it means nothing outside of one machine")
    return str(address)


def _refuse(reason: str) -> NoReturn:
    raise InvalidParameters.of(FIELD, reason)
