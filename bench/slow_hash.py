"""`billhook`, the real one, but with client secrets kept and checked by a hash that is slow on purpose.

    python -m bench.slow_hash argon2|pbkdf2 serve --port 8080

Only the digest of a secret is another: whatever else a token costs is the same. Like any other step of a token it runs
where the request is read, on one thread after another's: that costs least, and uses the memory of one hash only.
"""

import hashlib
import sys
from collections.abc import Callable

from argon2 import low_level, profiles

from billhook.auth import issuer, manage
from billhook.auth.secret import Digest, id_of
from billhook.cli import main
from billhook.storage.vault import Vault

ITERATIONS = 600_000  # what OWASP's cheat sheet on storing passwords asks of PBKDF2-HMAC-SHA256
REPLACED = "secret_digest"
SALT_BYTES = 16


def argon2(text: str, salt: bytes) -> bytes:
    """As argon2-cffi does by default: RFC 9106's profile for little memory, 3 rounds over 64 MiB in 4 lanes."""
    default = profiles.RFC_9106_LOW_MEMORY
    return low_level.hash_secret_raw(
        text.encode(),
        salt,
        time_cost=default.time_cost,
        memory_cost=default.memory_cost,
        parallelism=default.parallelism,
        hash_len=default.hash_len,
        type=default.type,
    )


def pbkdf2(text: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", text.encode(), salt, ITERATIONS)


HASHES: dict[str, Callable[[str, bytes], bytes]] = {"argon2": argon2, "pbkdf2": pbkdf2}


def slow_digest(name: str) -> Callable[[Vault], Digest]:
    """What stands in for `secret_digest`. The salt comes from the secret's id: another for each, as it should be."""
    hashed = HASHES[name]

    def of_vault(vault: Vault) -> Digest:
        pepper = vault.derive("client secrets")

        def digest(text: str) -> bytes:
            return hashed(text, hashlib.blake2b(id_of(text).encode(), key=pepper, digest_size=SALT_BYTES).digest())

        return digest

    return of_vault


if __name__ == "__main__":
    replacement = slow_digest(sys.argv.pop(1))
    for module in (manage, issuer):
        setattr(module, REPLACED, replacement)
    main()
