"""People's passwords: argon2id, with the library's parameters (RFC 9106, low memory)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from billhook.errors import InvalidParameters

SHORTEST = 8  # NIST SP 800-63B §5.1.1.2; sign-in attempts are limited besides
LONGEST = 1024  # hashing must not become a way to burn our processor

AT_ONCE = 2  # hashes under way in one process: each takes 64 MiB and a core for a while

_hasher = PasswordHasher()
_aside = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="password")


def hash_password(password: str) -> str:
    if not SHORTEST <= len(password) <= LONGEST:
        raise InvalidParameters.of("password", f"must have {SHORTEST} to {LONGEST} characters")
    try:
        return _hasher.hash(password)
    except UnicodeEncodeError:
        raise InvalidParameters.of("password", "must be text in UTF-8") from None


def password_matches(password: str, hashed: str) -> bool:
    try:
        return _hasher.verify(hashed, password)
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False


async def hash_aside(password: str) -> str:
    """In a thread: meanwhile the others are served."""
    return await asyncio.get_running_loop().run_in_executor(_aside, hash_password, password)


async def matches_aside(password: str, hashed: str | None) -> bool:
    """`hashed` None: there is no such user, which must take as long to find out."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_aside, _matches, password, hashed)


def _matches(password: str, hashed: str | None) -> bool:
    return password_matches(password[:LONGEST], hashed or _nobodys()) and hashed is not None


@cache
def _nobodys() -> str:
    return _hasher.hash("nobody has this password")
