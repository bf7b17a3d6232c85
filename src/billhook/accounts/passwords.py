"""People's passwords: argon2id, with the library's parameters (RFC 9106, low memory)."""

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from billhook.errors import InvalidParameters

SHORTEST = 8  # NIST SP 800-63B §5.1.1.2; sign-in attempts are limited besides
LONGEST = 1024  # hashing must not become a way to burn our processor

_hasher = PasswordHasher()


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
