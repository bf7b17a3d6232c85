"""What was sealed opens with the same master key, in the same place, unchanged; and not otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.storage.vault import NONCE_BYTES, Vault, WrongKey

KEY = "correct horse battery staple, and some more"
VAULT = Vault(KEY)
OTHER = Vault(KEY + "!")


@given(plain=st.binary(), context=st.text(st.characters(codec="utf-8")))
def test_what_was_sealed_can_be_opened(plain: bytes, context: str) -> None:
    assert Vault(KEY).decrypt(VAULT.encrypt(plain, context=context), context=context) == plain


def test_another_master_key_does_not_open_it() -> None:
    with pytest.raises(WrongKey):
        OTHER.decrypt(VAULT.encrypt(b"plain", context="here"), context="here")


def test_it_does_not_open_in_another_place() -> None:
    with pytest.raises(WrongKey, match="cannot be read with this master key"):
        VAULT.decrypt(VAULT.encrypt(b"plain", context="here"), context="there")


@given(place=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_no_byte_of_it_can_be_changed(place: int, flip: int) -> None:
    sealed = bytearray(VAULT.encrypt(b"plain", context="here"))
    sealed[place % len(sealed)] ^= flip
    with pytest.raises(WrongKey):
        VAULT.decrypt(bytes(sealed), context="here")


def cut_short(length: int) -> None:
    with pytest.raises(WrongKey):
        VAULT.decrypt(VAULT.encrypt(b"plain", context="here")[:length], context="here")


@pytest.mark.parametrize("length", [8, NONCE_BYTES, 20, 32])
def test_a_part_of_it_does_not_open(length: int) -> None:
    cut_short(length)


@pytest.mark.parametrize("length", [0, 1, 7])
def test_a_scrap_of_it_does_not_open(length: int) -> None:
    cut_short(length)


def test_sealing_twice_gives_different_texts() -> None:
    assert VAULT.encrypt(b"plain", context="here") != VAULT.encrypt(b"plain", context="here")


def test_the_sealed_text_does_not_show_the_plain_one() -> None:
    assert b"plain text" not in VAULT.encrypt(b"plain text", context="here")


def test_purposes_get_separate_keys() -> None:
    derived = [VAULT.derive(purpose) for purpose in ("encryption", "fingerprint", "client secrets")]
    assert len(set(derived)) == len(derived)
    assert {len(key) for key in derived} == {32}


def test_the_fingerprint_tells_master_keys_apart_and_nothing_more() -> None:
    assert VAULT.fingerprint == Vault(KEY).fingerprint
    assert VAULT.fingerprint != OTHER.fingerprint
    assert KEY not in VAULT.fingerprint


def test_during_a_rotation_both_keys_read_and_the_first_one_writes() -> None:
    ring = Vault(KEY + "!", KEY)
    assert ring.decrypt(VAULT.encrypt(b"plain", context="here"), context="here") == b"plain"
    assert OTHER.decrypt(ring.encrypt(b"plain", context="here"), context="here") == b"plain"
    assert (
        OTHER.decrypt(ring.reseal(VAULT.encrypt(b"plain", context="here"), context="here"), context="here") == b"plain"
    )
    with pytest.raises(WrongKey):
        ring.decrypt(Vault("third" * 8).encrypt(b"plain", context="here"), context="here")


def test_what_is_kept_is_not_derived_anew() -> None:
    kept = Vault(KEY + "!", kept={"pepper": VAULT.derive("pepper")})
    assert kept.derive("pepper") == VAULT.derive("pepper")
    assert kept.derive("another") == OTHER.derive("another")
    assert kept.fingerprint == OTHER.fingerprint
