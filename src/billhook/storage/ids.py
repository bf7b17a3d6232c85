"""Ids: a prefix that says what it names, then 26 characters that sort by the moment they were made."""

import os
import re
import secrets
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, in ASCII order, so that text order is time order
RANDOM_BITS = 80
STEP_BITS = 40  # of the step between two ids of one millisecond, so that one does not tell the next
LENGTH = 26  # 48 bits of milliseconds and 80 random bits, 5 bits a character

PAIRS = [first + second for first in ALPHABET for second in ALPHABET]  # spelt two at a time: ids are made in bulk
SHIFTS = range(5 * (LENGTH - 2), -1, -10)

FORM = re.compile(r"[a-z]{3}_[0-9a-z]{26}")

_latest = 0
_drawn: list[int] = []  # ahead, since a system call for each would cost 5 us


def new_id(prefix: str) -> str:
    """Later ids of one process are always greater, also within a millisecond and when the clock is set back."""
    global _latest
    fresh = (time.time_ns() // 1_000_000) << RANDOM_BITS | _random_bits()
    _latest = fresh if fresh > _latest else _latest + 1 + secrets.randbits(STEP_BITS)
    return f"{prefix}_{_spell(_latest)}"


def _random_bits() -> int:
    if not _drawn:
        bytes_each = RANDOM_BITS // 8
        drawn = os.urandom(256 * bytes_each)
        _drawn.extend(int.from_bytes(drawn[at : at + bytes_each]) for at in range(0, len(drawn), bytes_each))
    return _drawn.pop()


def first_id(prefix: str, moment_ms: int) -> str:
    """The least that an id made at that moment can be: what sorts before it was made before."""
    return f"{prefix}_{_spell(max(moment_ms, 0) << RANDOM_BITS)}"


def is_id(text: str) -> bool:
    """Whether it can be an id at all. What cannot is not asked for: some of it the database would choke on."""
    return FORM.fullmatch(text) is not None


def _spell(number: int) -> str:
    return "".join([PAIRS[number >> shift & 1023] for shift in SHIFTS])
