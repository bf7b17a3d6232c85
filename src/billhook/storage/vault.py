"""What the master key protects: peppers for digests, and encryption of what is stored."""

import secrets
from collections.abc import Mapping
from types import MappingProxyType

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from billhook.errors import BillhookError

NONCE_BYTES = 12  # AES-GCM's own size
SALT = b"billhook/1"  # fixed: it separates us from other users of the same master key


class WrongKey(BillhookError):
    """The text was encrypted under another master key, for another context, or was changed."""

    def __init__(self, context: str) -> None:
        super().__init__("what is stored cannot be read with this master key", detail=context)


class Vault:
    """Keys for separate purposes, derived from the master key; none is stored but what was kept from an earlier one.

    What was encrypted under one of the `others` can be read as well: during a rotation there is both.
    """

    def __init__(self, master_key: str, *others: str, kept: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._master, self._kept = master_key.encode(), kept
        self._cipher, *self._others = (AESGCM(_derive(key.encode(), "encryption")) for key in (master_key, *others))

    def derive(self, purpose: str) -> bytes:
        return self._kept.get(purpose) or _derive(self._master, purpose)

    @property
    def fingerprint(self) -> str:
        """Tells whether two master keys are the same, and nothing else about them."""
        return self.derive("fingerprint").hex()

    def encrypt(self, plain: bytes, *, context: str) -> bytes:
        """`context` says what and whose this is; the text cannot be moved to another place unnoticed."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, context.encode())

    def reseal(self, sealed: bytes, *, context: str) -> bytes:
        """The same under the master key itself, whichever it was encrypted under."""
        return self.encrypt(self.decrypt(sealed, context=context), context=context)

    def decrypt(self, sealed: bytes, *, context: str) -> bytes:
        for cipher in (self._cipher, *self._others):
            try:
                return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context.encode())
            except (InvalidTag, ValueError):  # ValueError: too short to be anything
                continue
        raise WrongKey(context)


def _derive(master: bytes, purpose: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=SALT, info=purpose.encode()).derive(master)
