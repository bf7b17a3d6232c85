"""The form of a client secret: `bhs_<id>_<random><checksum>`. Pure but for the dice of `new_secret`.

The id selects the row, so that a check costs one digest however many secrets a client has. The checksum lets scanners
of leaked code tell a real secret from a look-alike without asking us.
"""

import re
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_letters, digits

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

Digest = Callable[[str], bytes]

PREFIX = "bhs"
LEAD = f"{PREFIX}_"
ALPHABET = digits + ascii_letters
ID_START, ID_LENGTH = len(LEAD), 10
RANDOM_LENGTH = 43  # 43 characters of 62 carry 256.03 bits
CHECKSUM_LENGTH = 6  # 62**6 > 2**32
PATTERN = re.compile(rf"{PREFIX}_([0-9A-Za-z]{{{ID_LENGTH}}})_([0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}})")
NO_ID = ""  # no row has it


@dataclass(frozen=True)
class NewSecret:
    id: str
    text: str

    @property
    def hint(self) -> str:
        return self.text[-4:]

    def __repr__(self) -> str:
        return f"NewSecret(id={self.id!r})"


def new_secret() -> NewSecret:
    secret_id, random = _draw(ID_LENGTH), _draw(RANDOM_LENGTH)
    body = f"{PREFIX}_{secret_id}_{random}"
    return NewSecret(secret_id, body + checksum(body))


def checksum(body: str) -> str:
    """CRC-32 of all that stands before it, in base 62."""
    number, spelled = zlib.crc32(body.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        spelled = ALPHABET[digit] + spelled
    return spelled


def is_well_formed(text: str) -> bool:
    return PATTERN.fullmatch(text) is not None and checksum(text[:-CHECKSUM_LENGTH]) == text[-CHECKSUM_LENGTH:]


def id_of(text: str) -> str:
    """The id part of anything that is presented as a secret; NO_ID where there is none."""
    return text[ID_START : ID_START + ID_LENGTH] if text.startswith(LEAD) else NO_ID


def digester(pepper: bytes) -> Digest:
    """HMAC-SHA256 of a secret: what is stored. The pepper is kept outside the database.

    256 random bits need no slow hash (NIST SP 800-63B §5.1.2.2). The keyed state is made once and copied.
    """
    keyed = HMAC(pepper, SHA256())

    def digest(text: str) -> bytes:
        hashing = keyed.copy()
        hashing.update(text.encode())
        return hashing.finalize()

    return digest


def _draw(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))
