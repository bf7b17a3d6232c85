"""The form of client secrets."""

import hmac
import math

from hypothesis import given
from hypothesis import strategies as st

from billhook.auth.secret import NO_ID, PATTERN, RANDOM_LENGTH, digester, id_of, is_well_formed, new_secret


def test_a_secret_has_at_least_256_random_bits() -> None:
    assert RANDOM_LENGTH * math.log2(62) >= 256


def test_a_secret_has_a_prefix_an_id_and_a_checksum() -> None:
    secret = new_secret()
    assert secret.text.startswith("bhs_")
    assert PATTERN.fullmatch(secret.text)
    assert id_of(secret.text) == secret.id
    assert is_well_formed(secret.text)
    assert secret.text.endswith(secret.hint)


def test_no_two_secrets_are_alike() -> None:
    made = [new_secret() for _ in range(100)]
    assert len({secret.text for secret in made}) == len({secret.id for secret in made}) == 100


@given(position=st.integers(min_value=0, max_value=63), character=st.characters(codec="ascii"))
def test_a_changed_character_is_noticed_by_the_checksum(position: int, character: str) -> None:
    text = new_secret().text
    changed = text[:position] + character + text[position + 1 :]
    assert is_well_formed(changed) == (changed == text)


@given(st.text())
def test_anything_can_be_presented_as_a_secret(text: str) -> None:
    assert id_of(text) == NO_ID or text.startswith("bhs_")
    assert not is_well_formed(text)


@given(st.text(alphabet=st.characters(codec="utf-8")), st.binary(min_size=32, max_size=32))
def test_the_digest_is_hmac_sha256(text: str, pepper: bytes) -> None:
    assert digester(pepper)(text) == hmac.digest(pepper, text.encode(), "sha256")


def test_a_secret_does_not_show_itself_in_a_log_or_traceback() -> None:
    secret = new_secret()
    assert secret.text not in repr(secret)
