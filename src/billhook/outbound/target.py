"""The one reading of a receiver's URL. Pure: what it lets through means the same to everybody who reads it."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

from yarl import URL

UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")  # readers of URLs disagree about these
NAME = re.compile(r"(?=.{1,254}$)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?")  # `127.1`, `2130706433`, `0x7f.1` mean an address


class BadUrl(ValueError):
    """Nothing can be sent there. Its text does not quote the URL, which may hold a secret."""

    def __init__(self) -> None:
        super().__init__("the URL cannot be used")


def parse_target(url: str) -> URL:
    """The URL with path and query byte for byte; a host in another script is put into its ASCII form."""
    if UNSAFE.search(url):
        raise BadUrl
    try:
        parsed = _parse(url)
    except ValueError:
        raise BadUrl from None
    if parsed.scheme not in ("http", "https") or parsed.raw_user or parsed.raw_password or not parsed.port:
        raise BadUrl
    if not parsed.raw_path_qs.isascii() or not is_host(parsed.raw_host or ""):
        raise BadUrl
    return parsed


def _parse(url: str) -> URL:
    parsed = URL(url, encoded=True)
    host = parsed.raw_host
    return parsed if host is None or host.isascii() else parsed.with_host(host)


@lru_cache(maxsize=4096)
def is_host(host: str) -> bool:
    """A name, or an address in the one form that everybody reads alike."""
    if ":" in host:
        return "%" not in host and _is_address(IPv6Address, host)
    if NUMERIC.fullmatch(host):
        return _is_address(IPv4Address, host)
    return NAME.fullmatch(host) is not None


def _is_address(kind: type[IPv4Address | IPv6Address], host: str) -> bool:
    try:
        kind(host)
    except ValueError:
        return False
    return True
