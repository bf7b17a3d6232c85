"""Ids: a prefix that says what it names, then 26 characters that sort by the moment they were made."""

import secrets
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, in ASCII order, so that text order is time order
RANDOM_BITS = 80
LENGTH = 26  # 48 bits of milliseconds and 80 random bits, 5 bits a character


def new_id(prefix: str) -> str:
    number = (time.time_ns() // 1_000_000) << RANDOM_BITS | secrets.randbits(RANDOM_BITS)
    return f"{prefix}_{_spell(number)}"


def _spell(number: int) -> str:
    return "".join(ALPHABET[number >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5))
