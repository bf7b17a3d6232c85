"""Tokens: what others can verify, and what we refuse to read."""

import base64
import hmac
import json
import time
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from joserfc import jwt as jose
from joserfc.jwk import ECKey

from billhook.auth.keys import Key, new_key
from billhook.auth.tokens import (
    LEEWAY,
    LONGEST_TOKEN,
    Claims,
    new_token_id,
    payload_of,
    read_token,
    side_by_side,
    signer_of,
)
from billhook.errors import Unauthenticated
from billhook.web.lanes import at_once

ISSUER = "https://billhook.example.com"
NOW = 1_800_000_000
CLAIMS = Claims("cli_1", "org_1", "clients:read", NOW, NOW + 3600, "0" * 32, 0)
KEY = new_key(now=datetime.now(UTC), active_from=datetime.now(UTC))
OTHER = new_key(now=datetime.now(UTC), active_from=datetime.now(UTC))
SIGNING = ECKey.import_key(KEY.private)


def minted(claims: Claims = CLAIMS, key: Key = KEY) -> str:
    return at_once(signer_of(key)(payload_of(claims, issuer=ISSUER))).decode()


def forged(header: dict[str, Any] | None = None, claims: dict[str, Any] | None = None) -> str:
    """Signed with our own key, but with another header or other claims."""
    whole = {"alg": "ES256", "typ": "at+jwt", "kid": KEY.kid} | (header or {})
    return jose.encode(whole, json.loads(payload_of(CLAIMS, issuer=ISSUER)) | (claims or {}), SIGNING)


def read(token: str, *, now: float = NOW, keys: list[Key] | None = None) -> Claims:
    return read_token(token, [KEY] if keys is None else keys, issuer=ISSUER, now=now)


def test_our_own_tokens_are_read_back() -> None:
    assert read(minted()) == CLAIMS
    assert read(minted(), keys=[OTHER, KEY]) == CLAIMS


NUMBERS = [1, 0x7F, 0x80, 2**248 - 1, 2**248, 2**255 - 1, 2**255, 2**256 - 1]  # each side of a change in DER's length


@pytest.mark.parametrize("r", NUMBERS)
@pytest.mark.parametrize("s", NUMBERS)
def test_the_numbers_of_a_signature_take_32_bytes_each(r: int, s: int) -> None:
    assert side_by_side(encode_dss_signature(r, s)) == r.to_bytes(32, "big") + s.to_bytes(32, "big")


def test_another_library_verifies_what_we_sign() -> None:
    options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
    public = KEY.private.public_key()
    for _ in range(50):  # signatures vary, also in the length of their numbers
        token = minted(CLAIMS._replace(jti=new_token_id()))
        jwt.decode(token, public, algorithms=["ES256"], audience=ISSUER, issuer=ISSUER, options=options)


@pytest.mark.parametrize(
    ("now", "counts"),
    [(NOW - LEEWAY - 1, False), (NOW - LEEWAY, True), (NOW + 3599, True), (NOW + 3600, False), (NOW + 9999, False)],
)
def test_a_token_counts_from_its_beginning_to_its_end(now: float, counts: bool) -> None:
    if counts:
        assert read(minted(), now=now) == CLAIMS
    else:
        with pytest.raises(Unauthenticated):
            read(minted(), now=now)


def spelled(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def head_and_payload(algorithm: str) -> str:
    header = json.dumps({"alg": algorithm, "typ": "at+jwt", "kid": KEY.kid}).encode()
    return f"{spelled(header)}.{spelled(payload_of(CLAIMS, issuer=ISSUER))}"


def signed_with_the_public_key_as_a_secret() -> str:
    signed = head_and_payload("HS256")
    return f"{signed}.{spelled(hmac.digest(KEY.jwk.as_pem(private=False), signed.encode(), 'sha256'))}"


def with_a_key_of_its_own() -> str:
    own = ECKey.import_key(generate_private_key(SECP256R1()))
    header = {"alg": "ES256", "typ": "at+jwt", "jwk": own.as_dict(private=False)}
    return jose.encode(header, json.loads(payload_of(CLAIMS, issuer=ISSUER)), own)


BAD_TOKENS = {
    "nothing": "",
    "not a token": "abc",
    "two dots": "..",
    "beyond ASCII": "é.é.é",
    "another key": minted(key=OTHER),
    "a changed payload": minted().replace(".eyJ", ".eyK", 1),
    "a changed signature": minted()[:-8] + "AAAAAAAA",
    "no signature": minted().rsplit(".", 1)[0] + ".",
    "padding": minted() + "=",
    "alg none": head_and_payload("none") + ".",
    "the public key as a secret": signed_with_the_public_key_as_a_secret(),
    "a key in the header": with_a_key_of_its_own(),
    "an unknown kid": forged({"kid": "another"}),
    "typ JWT": forged({"typ": "JWT"}),
    "no typ": forged({"typ": ""}),
    "another issuer": forged(claims={"iss": "https://elsewhere.example.com"}),
    "another audience": forged(claims={"aud": "https://elsewhere.example.com"}),
    "too long": minted() + "a" * LONGEST_TOKEN,
}


@pytest.mark.parametrize("token", BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
def test_anything_else_is_refused_with_the_one_message(token: str) -> None:
    with pytest.raises(Unauthenticated, match="^invalid or expired token$"):
        read(token)


def test_token_ids_do_not_repeat() -> None:
    assert len({new_token_id() for _ in range(1000)}) == 1000


def test_a_token_of_now_counts_now() -> None:
    now = time.time()
    claims = CLAIMS._replace(issued_at=int(now), expires_at=int(now) + 60)
    assert read(minted(claims), now=now) == claims
