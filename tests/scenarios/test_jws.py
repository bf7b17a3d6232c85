"""Signatures: the examples of the RFCs, and what attackers have done to verifiers of JWS, against ours."""

import base64
import hmac
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, Key, OctKey, RSAKey

from billhook.auth import keys
from billhook.auth.tokens import LONGEST_TOKEN, Claims, payload_of, read_token, side_by_side, signer_of
from billhook.errors import Unauthenticated
from billhook.web.lanes import at_once
from tests.scenarios.jws_examples import COMPACT, ES256_KEY, OTHER_FORMS, Example
from tests.support import bearer
from tests.tally import tally

ISSUER = "https://billhook.example.com"
NOW = 1_800_000_000
CLAIMS = Claims("cli_1", "org_1", "clients:read", NOW, NOW + 3600, "0" * 32, 0)
PAYLOAD = payload_of(CLAIMS, issuer=ISSUER)
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the points of P-256
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

KINDS: dict[str, Any] = {"oct": OctKey, "RSA": RSAKey, "EC": ECKey}
Spoil = Callable[[], str]


def unspelled(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def spelled(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def key_of(private: EllipticCurvePrivateKey) -> keys.Key:
    return keys.Key(private, datetime.now(UTC), datetime.now(UTC))


# Our key is that of RFC 7515 A.3, so that its example is signed by ourselves and yet no token of ours.
KEY = key_of(derive_private_key(int.from_bytes(unspelled(ES256_KEY["d"]), "big"), SECP256R1()))
STRANGER = key_of(generate_private_key(SECP256R1()))
HEADER = {"alg": "ES256", "typ": "at+jwt", "kid": KEY.kid}
GOOD = at_once(signer_of(KEY)(PAYLOAD)).decode()
HEAD, BODY, SIGNATURE = GOOD.split(".")
R, S = (int.from_bytes(unspelled(SIGNATURE)[half], "big") for half in (slice(32), slice(32, 64)))


def signed(
    header: dict[str, Any] | bytes, payload: bytes = PAYLOAD, *, key: keys.Key = KEY, spell: Any = spelled
) -> str:
    """By whoever has `key`, with a header of their choice."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    message = f"{spell(raw)}.{spell(payload)}"
    return f"{message}.{spell(side_by_side(key.private.sign(message.encode(), ECDSA(SHA256()))))}"


def unsigned(header: object, signature: str = SIGNATURE) -> str:
    """Anybody can write this."""
    return f"{spelled(json.dumps(header).encode())}.{BODY}.{signature}"


def numbers(r: int, s: int) -> str:
    return f"{HEAD}.{BODY}.{spelled(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def with_mac(secret: bytes, algorithm: str = "HS256") -> str:
    message = f"{spelled(json.dumps(HEADER | {'alg': algorithm}).encode())}.{BODY}"
    return f"{message}.{spelled(hmac.digest(secret, message.encode(), 'sha256'))}"


def with_another_hash() -> str:
    message = f"{spelled(json.dumps(HEADER).encode())}.{BODY}"
    return f"{message}.{spelled(side_by_side(KEY.private.sign(message.encode(), ECDSA(SHA384()))))}"


def read(token: str, name: str) -> Claims | str:
    """The claims, or why it was refused; both counted. Anything else that is raised is a failure of ours."""
    try:
        claims: Claims | str = read_token(token, [KEY], issuer=ISSUER, now=NOW)
    except Unauthenticated as refusal:
        claims = str(refusal.detail)
    is_read = isinstance(claims, Claims)
    tally.judged("JWS", name, what="read" if is_read else "refused", unit="tokens", places="kinds", is_leak=is_read)
    return claims


@pytest.mark.parametrize("example", COMPACT.values(), ids=COMPACT.keys())
def test_the_examples_are_copied_rightly(example: Example) -> None:
    """Else the refusals below would say nothing."""
    key: Key = KINDS[example.key["kty"]].import_key(dict(example.key))
    jws.deserialize_compact(example.token, key, algorithms=[example.algorithm])


@pytest.mark.parametrize("name", [*COMPACT, *OTHER_FORMS])
def test_no_example_of_the_rfcs_is_a_token_of_ours(name: str) -> None:
    token = COMPACT[name].token if name in COMPACT else OTHER_FORMS[name]
    assert isinstance(read(token, name), str)


def test_the_one_that_our_key_has_signed_is_refused_for_what_it_says_only() -> None:
    token = COMPACT["RFC 7515 A.3"].token
    assert read(token, "RFC 7515 A.3") == "header"
    assert read(token[:-10] + "A" * 10, "RFC 7515 A.3, changed") == "BadSignatureError"


def test_what_we_sign_with_the_key_of_the_example_is_read() -> None:
    assert read_token(GOOD, [KEY], issuer=ISSUER, now=NOW) == CLAIMS
    assert read_token(signed(HEADER), [KEY], issuer=ISSUER, now=NOW) == CLAIMS


JWK = STRANGER.jwk.as_dict(private=False)
BY_A_STRANGER: dict[str, dict[str, Any]] = {
    "our kid": {},
    "no kid": {"kid": None},
    "their kid": {"kid": STRANGER.kid},
    "a key in the header": {"jwk": JWK},
    "a key in the header, its kid ours": {"jwk": JWK | {"kid": KEY.kid}},
    "the address of a key set": {"jku": "https://attacker.example/jwks.json"},
    "the address of a certificate": {"x5u": "https://attacker.example/key.pem"},
    "a certificate": {"x5c": ["MIIB"]},
    "a path for a kid": {"kid": "../../../../dev/null"},
    "SQL for a kid": {"kid": "' UNION SELECT 'AA"},
    "a list for a kid": {"kid": [KEY.kid]},
    "a kid in another case": {"kid": KEY.kid.swapcase()},
    "a kid with a NUL": {"kid": KEY.kid + "\0"},
    "a kid of broken Unicode": {"kid": "\ud800"},
}
ODD: dict[str, list[Any]] = {
    "alg": ["es256", "ES256 ", "ES256\0", "ES384", "ES256K", "EdDSA", "RS256", "PS256", "HS256", "", None, 5, [], {}],
    "typ": ["JWT", "at+JWT", "application/at+jwt", None, 5, ["at+jwt"]],
    "crit": [None, 3, "", "exp", {}, True, [None], [{}], [[]], ["exp"]],
}
HEADERS: dict[str, object] = {
    "nothing": {},
    "null": None,
    "a number": 5,
    "a string": "ES256",
    "a list": ["alg", "ES256"],
    **{f"{member} {each!r}": HEADER | {member: each} for member, values in ODD.items() for each in values},
    "crit b64": HEADER | {"crit": ["b64"], "b64": False},
    "b64 without crit": HEADER | {"b64": False},
    "compressed": HEADER | {"zip": "DEF"},
    "encrypted": HEADER | {"alg": "dir", "enc": "A128GCM"},
}
NONES = ["none", "None", "NONE", "nOnE", "none ", ""]
SPOILT: dict[str, Spoil] = {
    **{f"alg {each!r}, no signature": lambda each=each: unsigned(HEADER | {"alg": each}, "") for each in NONES},  # type: ignore[misc]
    **{f"alg {each!r}, our signature": lambda each=each: unsigned(HEADER | {"alg": each}) for each in NONES},  # type: ignore[misc]
    "the public key's PEM as a secret": lambda: with_mac(KEY.jwk.as_pem(private=False)),
    "the public key's DER as a secret": lambda: with_mac(KEY.jwk.as_der(private=False)),
    "the public key's JWK as a secret": lambda: with_mac(json.dumps(KEY.jwk.as_dict(private=False)).encode()),
    "the public point as a secret": lambda: with_mac(unspelled(ES256_KEY["x"]) + unspelled(ES256_KEY["y"])),
    "an empty secret": lambda: with_mac(b""),
    "a MAC that says ES256": lambda: with_mac(KEY.jwk.as_pem(private=False), "ES256"),
    "another hash": with_another_hash,
    "r = 0": lambda: numbers(0, S),
    "s = 0": lambda: numbers(R, 0),
    "both 0": lambda: numbers(0, 0),
    "both 1": lambda: numbers(1, 1),
    "r = n": lambda: numbers(ORDER, S),
    "s = n": lambda: numbers(R, ORDER),
    "r and s = n": lambda: numbers(ORDER, ORDER),
    "r all ones": lambda: numbers(2**256 - 1, S),
    "s all ones": lambda: numbers(R, 2**256 - 1),
    "r and s in the wrong order": lambda: numbers(S, R),
    "r negated": lambda: numbers(ORDER - R, S),
    "DER instead of r and s": lambda: f"{HEAD}.{BODY}.{spelled(encode_dss_signature(R, S))}",
    "r cut off": lambda: f"{HEAD}.{BODY}.{spelled(unspelled(SIGNATURE)[:32])}",
    "one byte less": lambda: f"{HEAD}.{BODY}.{spelled(unspelled(SIGNATURE)[:63])}",
    "one byte more": lambda: f"{HEAD}.{BODY}.{spelled(unspelled(SIGNATURE) + bytes(1))}",
    "zeros before it": lambda: f"{HEAD}.{BODY}.{spelled(bytes(1) + unspelled(SIGNATURE))}",
    "longer numbers": lambda: (
        f"{HEAD}.{BODY}.{spelled(bytes(1) + R.to_bytes(32, 'big') + bytes(1) + S.to_bytes(32, 'big'))}"
    ),
    "no signature": lambda: f"{HEAD}.{BODY}.",
    "no signature and no dot": lambda: f"{HEAD}.{BODY}",
    "no payload": lambda: f"{HEAD}..{SIGNATURE}",
    "no header": lambda: f".{BODY}.{SIGNATURE}",
    "the signature alone": lambda: SIGNATURE,
    "a dot behind it": lambda: GOOD + ".",
    "a dot before it": lambda: "." + GOOD,
    "a fourth part": lambda: GOOD + ".e30",
    "five parts, as if encrypted": lambda: f"{HEAD}.{BODY}.{SIGNATURE}.{BODY}.{SIGNATURE}",
    "twice": lambda: GOOD + GOOD,
    "padded": lambda: GOOD + "==",
    "a space behind it": lambda: GOOD + " ",
    "a line break behind it": lambda: GOOD + "\n",
    "a line break within": lambda: f"{HEAD}\n.{BODY}.{SIGNATURE}",
    "spaces within": lambda: GOOD.replace(".", " . "),
    "a NUL": lambda: GOOD + "\0",
    "a dot of another script": lambda: GOOD.replace(".", "\u2024"),
    "letters of another script": lambda: f"{HEAD}.{BODY}.{SIGNATURE[:-1]}\uff21",
    "broken Unicode": lambda: f"\ud800.{BODY}.{SIGNATURE}",
    "JSON, general": lambda: json.dumps({"payload": BODY, "signatures": [{"protected": HEAD, "signature": SIGNATURE}]}),
    "JSON, flattened": lambda: json.dumps({"payload": BODY, "protected": HEAD, "signature": SIGNATURE}),
    "the last bits of the signature": lambda: GOOD[:-1] + ALPHABET[ALPHABET.index(GOOD[-1]) ^ 1],
    "letters that mean nothing": lambda: f"{HEAD}.{BODY}.{SIGNATURE[:9]}!~*{SIGNATURE[9:]}",
    "too long": lambda: GOOD + "A" * LONGEST_TOKEN,
    "only dots": lambda: "." * LONGEST_TOKEN,
    "a deep header": lambda: f"{spelled(b'[' * 3000)}.{BODY}.{SIGNATURE}",
    "a deep member": lambda: ".".join([spelled(b'{"a":' * 70), BODY, SIGNATURE]),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_token_that_was_tampered_with_is_refused(name: str) -> None:
    assert isinstance(read(SPOILT[name](), name), str)


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_of_somebody_elses_is_refused_whether_anybody_signed_it_or_not(name: str) -> None:
    header = HEADERS[name]
    for token in (unsigned(header), unsigned(header, ""), signed(json.dumps(header).encode(), key=STRANGER)):
        assert isinstance(read(token, f"header: {name}"), str)


@pytest.mark.parametrize("name", BY_A_STRANGER)
def test_what_a_stranger_signed_is_refused_whatever_its_header_says(name: str) -> None:
    header = {member: value for member, value in (HEADER | BY_A_STRANGER[name]).items() if value is not None}
    assert isinstance(read(signed(header, key=STRANGER), f"by a stranger: {name}"), str)


OURS_BUT_ODD: dict[str, Spoil] = {
    **{f"header: {name}": lambda each=each: signed(json.dumps(each).encode()) for name, each in HEADERS.items()},  # type: ignore[misc]
    "jwk": lambda: signed(HEADER | {"jwk": KEY.jwk.as_dict(private=False)}),
    "jku": lambda: signed(HEADER | {"jku": "https://attacker.example/"}),
    "no kid": lambda: signed({"alg": "ES256", "typ": "at+jwt"}),
    "another member": lambda: signed(HEADER | {"cty": "JWT"}),
    "the usual alphabet": lambda: signed(
        HEADER, PAYLOAD + b"  " + bytes(range(128, 256)), spell=lambda raw: base64.b64encode(raw).decode().rstrip("=")
    ),
    "a list of claims": lambda: signed(HEADER, b"[]"),
    "no claims": lambda: signed(HEADER, b"{}"),
    "an empty payload": lambda: signed(HEADER, b""),
    "a payload that is not JSON": lambda: signed(HEADER, b"\xff\xfe"),
    "a deep payload": lambda: signed(HEADER, b"[" * 1200),
}


@pytest.mark.parametrize("name", OURS_BUT_ODD)
def test_our_own_signature_does_not_make_an_odd_token_good(name: str) -> None:
    """The key may sign other things one day."""
    assert isinstance(read(OURS_BUT_ODD[name](), f"ours, but {name}"), str)


def test_the_other_signature_of_the_same_token_makes_no_other_token() -> None:
    """Whoever has (r, s) has (r, n - s) too, which ES256 allows: so nothing may go by the text of a token."""
    twin = numbers(R, ORDER - S)
    assert twin != GOOD
    assert read_token(twin, [KEY], issuer=ISSUER, now=NOW).jti == CLAIMS.jti


@pytest.mark.parametrize(("name", "place"), [*product(("header", "payload", "signature"), (0, 1, 2, -1))])
def test_a_flipped_bit_at_either_end_of_a_part_counts(name: str, place: int) -> None:
    part = ("header", "payload", "signature").index(name)
    raw = bytearray(unspelled(GOOD.split(".")[part]))
    for bit in range(8):
        changed = bytearray(raw)
        changed[place] ^= 1 << bit
        parts = [*GOOD.split(".")]
        parts[part] = spelled(bytes(changed))
        assert isinstance(read(".".join(parts), f"a bit of the {name}"), str)


TEXTS = st.one_of(st.text(max_size=40), st.text(alphabet=ALPHABET + ".=", max_size=200))
MEMBERS = ("alg", "typ", "kid", "crit", "b64", "jwk", "jku", "x5u", "x5c", "x5t", "zip", "enc", "cty")
PLAIN = st.sampled_from([None, True, 0, -1, 2**70, 0.5, float("nan"), "", "\ud800", *MEMBERS]) | st.text(max_size=4)
VALUES = PLAIN | st.lists(PLAIN | st.lists(PLAIN, max_size=1), max_size=2) | st.dictionaries(st.just("x"), PLAIN)
FREE_HEADERS = st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=5)


@tally.settings(150)
@given(changes=FREE_HEADERS, is_bare=st.booleans(), signature=st.sampled_from(["", "AAAA", SIGNATURE]))
def test_whatever_a_header_holds_it_is_refused(changes: dict[str, Any], is_bare: bool, signature: str) -> None:
    assert isinstance(read(unsigned(changes if is_bare else HEADER | changes, signature), "any header"), str)


@tally.settings(150)
@given(parts=st.lists(TEXTS, max_size=5))
def test_whatever_a_token_is_it_is_refused(parts: list[str]) -> None:
    assert isinstance(read(".".join(parts), "any text"), str)


@tally.settings(150)
@given(at=st.integers(0, len(GOOD) - 1), typed=st.characters(), is_inserted=st.booleans())
def test_no_character_of_a_token_can_be_changed_or_added(at: int, typed: str, is_inserted: bool) -> None:
    changed = GOOD[:at] + typed + GOOD[at if is_inserted else at + 1 :]
    if changed != GOOD:
        assert isinstance(read(changed, "another character"), str)


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_over_http_a_strange_header_is_a_refusal_and_no_failure_of_ours(http: httpx.AsyncClient) -> None:
    for header in HEADERS.values():
        answer = await http.get("/api/v1/me", headers=bearer(unsigned(header)))
        tally.answered("JWS over HTTP", "GET /api/v1/me", answer.status_code)
        assert (answer.status_code, answer.json()["code"]) == (401, "failed"), header
        assert re.match("Bearer", answer.headers["www-authenticate"])
