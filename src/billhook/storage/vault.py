"""What the master key protects: peppers for digests, and encryption of what is stored."""

import secrets

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
    """Keys for separate purposes, all derived from the master key and none of them stored."""

    def __init__(self, master_key: str) -> None:
        self._master = master_key.encode()
        self._cipher = AESGCM(self.derive("encryption"))

    def derive(self, purpose: str) -> bytes:
        return HKDF(algorithm=SHA256(), length=32, salt=SALT, info=purpose.encode()).derive(self._master)

    @property
    def fingerprint(self) -> str:
        """Tells whether two master keys are the same, and nothing else about them."""
        return self.derive("fingerprint").hex()

    def encrypt(self, plain: bytes, *, context: str) -> bytes:
        """`context` says what and whose this is; the text cannot be moved to another place unnoticed."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, context.encode())

    def decrypt(self, sealed: bytes, *, context: str) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context.encode())
        except (InvalidTag, ValueError):  # ValueError: too short to be anything
            raise WrongKey(context) from None
