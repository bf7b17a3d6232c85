"""Access tokens: JWTs after RFC 9068, signed with ES256. Pure but for the dice of a token's id.

Signing is written out here, because it is nearly all that a token costs: 45 us against 91 us through the JOSE library
(docs/decisions/0003). Verification goes through the library.
"""

import os
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from billhook.auth.keys import Key
from billhook.errors import Unauthenticated
from billhook.web.lanes import Steps

ALGORITHM = "ES256"
TYPE = "at+jwt"
HEADER = {"alg", "typ", "kid"}  # we write these and no others: a token with more is not of our making
LONGEST_TOKEN = 4096  # characters; ours have about 600
MOST_VERIFIED = 4096  # tokens whose signature is known to be good: some megabytes
LEEWAY = 5  # seconds that another process's clock may be ahead of ours. Never granted to the end of a token

_ES256 = ECDSA(SHA256())  # OpenSSL mixes the private key and the message into its nonces, so a poor dice does not leak
_registry = JWSRegistry(algorithms=[ALGORITHM])

Sign = Callable[[bytes], Steps[bytes]]


class Claims(NamedTuple):
    client_id: str
    organization_id: str
    scope: str
    issued_at: int
    expires_at: int
    jti: str
    epoch: int


def signer_of(key: Key) -> Sign:
    """Payload in, compact token out. The header is the same for all tokens of a key, so it is made once."""
    header = _base64(orjson.dumps({"alg": ALGORITHM, "typ": TYPE, "kid": key.kid})) + b"."
    private = key.private

    def sign(payload: bytes) -> Steps[bytes]:
        signed = header + _base64(payload)
        signature = yield partial(private.sign, signed, _ES256)
        return signed + b"." + _base64(side_by_side(signature))

    return sign


def side_by_side(signature: bytes) -> bytes:
    """The two numbers of a P-256 signature in 32 bytes each (RFC 7518 §3.4), out of DER: 30 n 02 n r… 02 n s….

    DER leaves out leading zeros, and puts one before a number whose first bit is set.
    """
    end_of_r = 4 + signature[3]
    r, s = signature[4:end_of_r], signature[end_of_r + 2 :]
    return r[-32:].rjust(32, b"\0") + s[-32:].rjust(32, b"\0")


def payload_of(claims: Claims, *, issuer: str) -> bytes:
    client_id, organization_id, scope, issued_at, expires_at, jti, epoch = claims
    return orjson.dumps(
        {
            "iss": issuer,
            "aud": issuer,
            "sub": client_id,
            "client_id": client_id,
            "iat": issued_at,
            "nbf": issued_at,
            "exp": expires_at,
            "jti": jti,
            "scope": scope,
            "org": organization_id,
            "epoch": epoch,
        }
    )


_verified: dict[str, tuple[str | None, dict[str, Any]]] = {}  # by token: the key that signed it, and its claims


_token_ids: list[str] = []  # drawn ahead, since a system call for each would cost 2 us


def new_token_id() -> str:
    if not _token_ids:
        drawn = os.urandom(16 * 256).hex()
        _token_ids.extend(drawn[start : start + 32] for start in range(0, len(drawn), 32))
    return _token_ids.pop()


def read_token(token: str, keys: Sequence[Key], *, issuer: str, now: float) -> Claims:
    """The claims of a token that one of `keys` signed for this issuer and that is valid now; else Unauthenticated."""
    claims = _verified_claims(token, keys)
    if claims.get("iss") != issuer or claims.get("aud") != issuer:
        raise _invalid("issuer or audience")
    if not claims["nbf"] <= now + LEEWAY:
        raise _invalid("not valid yet")
    if not now < claims["exp"]:
        raise _invalid("expired")
    return Claims(
        client_id=claims["client_id"],
        organization_id=claims["org"],
        scope=claims["scope"],
        issued_at=claims["iat"],
        expires_at=claims["exp"],
        jti=claims["jti"],
        epoch=claims["epoch"],
    )


def _verified_claims(token: str, keys: Sequence[Key]) -> dict[str, Any]:
    """What does not change is checked once: a token is used thousands of times, and its signature stays what it is."""
    kid, claims = _verified.get(token, (None, {}))
    if kid is not None and any(key.kid == kid for key in keys):
        return claims
    kid, claims = _verify(token, keys)
    if len(_verified) >= MOST_VERIFIED:
        _verified.clear()
    _verified[token] = (kid, claims)
    return claims


def _verify(token: str, keys: Sequence[Key]) -> tuple[str, dict[str, Any]]:
    if len(token) > LONGEST_TOKEN:
        raise _invalid("too long")
    key_set = KeySet([key.jwk for key in keys])
    try:
        read = jwt.decode(token, key_set, algorithms=[ALGORITHM], registry=_registry)
    except (JoseError, ValueError, TypeError, RecursionError) as error:  # the library does not expect any `crit`
        raise _invalid(type(error).__name__) from None
    if read.header.keys() != HEADER or read.header["typ"] != TYPE:
        raise _invalid("header")
    return read.header["kid"], read.claims


def _invalid(detail: str) -> Unauthenticated:
    return Unauthenticated(challenge='Bearer error="invalid_token"', detail=detail)


def _base64(raw: bytes) -> bytes:
    return b2a_base64(raw, newline=False).replace(b"+", b"-").replace(b"/", b"_").rstrip(b"=")
