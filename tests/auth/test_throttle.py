"""How often a client may fail."""

import pytest

from billhook.auth.throttle import FAILURES_PER_PAIR, Throttle
from billhook.storage.vault import Vault
from billhook.web import throttle
from billhook.web.failures import Failures

VAULT = Vault("a master key of at least 32 characters")


def test_ten_failures_of_one_client_from_one_address_are_allowed_in_five_minutes() -> None:
    limits = Throttle(Failures(VAULT))
    waits = [limits.fail("192.0.2.1", "x", now=float(second)) for second in range(11)]
    assert waits == [0.0] * 10 + [290.0]
    assert limits.fail("192.0.2.1", "x", now=300.0) == 0
    assert limits.fail("192.0.2.2", "x", now=10.0) == 0


def test_thirty_failures_of_one_address_are_allowed_in_five_minutes() -> None:
    limits = Throttle(Failures(VAULT))
    waits = [limits.fail("192.0.2.1", f"client {n}", now=0.0) for n in range(31)]
    assert waits == [0.0] * 30 + [300.0]


def test_an_ipv6_neighbourhood_counts_as_one_address() -> None:
    limits = Throttle(Failures(VAULT))
    for number in range(FAILURES_PER_PAIR):
        limits.fail(f"2001:db8::{number:x}", "x", now=0.0)
    assert limits.fail("2001:db8::ffff", "x", now=0.0) > 0
    assert limits.fail("2001:db8:0:1::1", "x", now=0.0) == 0


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MOST_KEYS", 10)
    limits = Throttle(Failures(VAULT))
    for number in range(100):
        limits.fail(f"192.0.2.{number}", "x", now=0.0)
    assert len(limits.pairs.moments) == len(limits.addresses.moments) == 10


def test_a_long_client_id_is_not_kept() -> None:
    limits = Throttle(Failures(VAULT))
    limits.fail("192.0.2.1", "x" * 8000, now=0.0)
    assert len(repr(list(limits.pairs.moments))) < 200


def test_a_failure_is_told_to_the_others_when_it_is_counted_and_only_then() -> None:
    failures = Failures(VAULT)
    limits = Throttle(failures)
    for _ in range(FAILURES_PER_PAIR + 5):
        limits.fail("192.0.2.1", "x", now=0.0)
    assert [len(window.untold) for window in failures.windows.values()] == [FAILURES_PER_PAIR] * 2
