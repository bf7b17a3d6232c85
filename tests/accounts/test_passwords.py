"""Passwords are kept as argon2id and nothing else."""

import pytest

from billhook.accounts.passwords import LONGEST, SHORTEST, hash_password, password_matches
from billhook.errors import InvalidParameters

PASSWORD = "correct horse battery staple"


def test_a_password_is_kept_as_argon2id_with_its_own_salt() -> None:
    first, second = hash_password(PASSWORD), hash_password(PASSWORD)
    assert first.startswith("$argon2id$")
    assert first != second


def test_only_the_same_password_matches() -> None:
    hashed = hash_password(PASSWORD)
    assert password_matches(PASSWORD, hashed)
    assert not password_matches(PASSWORD + " ", hashed)
    assert not password_matches("", hashed)


@pytest.mark.parametrize("damaged", ["", "plain", "$argon2id$", "$2b$12$aaaaaaaaaaaaaaaaaaaaaa"])
def test_nothing_matches_a_hash_that_is_none(damaged: str) -> None:
    assert not password_matches(PASSWORD, damaged)


@pytest.mark.parametrize("length", [SHORTEST, LONGEST])
def test_a_password_may_be_as_long_as_the_limits(length: int) -> None:
    assert password_matches("ä" * length, hash_password("ä" * length))


@pytest.mark.parametrize("length", [0, SHORTEST - 1, LONGEST + 1])
def test_a_password_beyond_the_limits_is_refused_by_name(length: int) -> None:
    with pytest.raises(InvalidParameters, match="password: must have 8 to 1024 characters"):
        hash_password("x" * length)


def test_a_password_that_is_not_text_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameters, match="password"):
        hash_password("not text: \udcff\udcfe")
