"""How a provider is doing, in one word."""

from dataclasses import replace
from typing import Any

import pytest

from billhook.console.standing import last_used_ms, standing_of, was_success
from billhook.groups.model import Health, Provider, ProviderState
from tests.console.sample import a_provider

NOW_MS = 1_000_000


def provider(state: ProviderState = ProviderState.ACTIVE, **health: Any) -> Provider:
    return replace(a_provider(), state=state, health=Health(**health))


FAILING: dict[str, Any] = {"failures": 3, "failing_since_ms": 900, "last_failure_ms": 1000}


@pytest.mark.parametrize(
    ("one", "word", "kind"),
    [
        (provider(), "never used", ""),
        (provider(last_success_ms=5), "healthy", "ok"),
        (provider(last_success_ms=5, last_failure_ms=9), "healthy", "ok"),
        (provider(**FAILING), "failing", "bad"),
        (provider(**FAILING, open_until_ms=NOW_MS + 1), "failing", "bad"),
        (provider(openings=1, open_until_ms=NOW_MS + 1, last_success_ms=5), "failing", "bad"),
        (provider(openings=1, open_until_ms=NOW_MS, last_success_ms=5), "failing", "bad"),
        (provider(**FAILING, waits_until_ms=NOW_MS + 1), "waiting", "warn"),
        (provider(ProviderState.PAUSED), "paused", "warn"),
        (provider(ProviderState.PAUSED, **FAILING), "paused", "warn"),
        (provider(ProviderState.DISABLED, **FAILING), "disabled", "bad"),
    ],
)
def test_its_word_and_colour(one: Provider, word: str, kind: str) -> None:
    standing = standing_of(one, now_ms=NOW_MS)
    assert (standing.word, standing.kind) == (word, kind)
    assert standing.sentence.endswith(".")


def test_a_failing_one_says_since_when_and_until_when() -> None:
    standing = standing_of(provider(**FAILING, open_until_ms=NOW_MS + 1), now_ms=NOW_MS)
    assert (standing.since_ms, standing.until_ms) == (900, NOW_MS + 1)


@pytest.mark.parametrize("reason", ["every attempt failed for 72 hours", None])
def test_a_disabled_one_says_why(reason: str | None) -> None:
    one = replace(provider(ProviderState.DISABLED), state_reason=reason)
    assert (reason or "nobody said why") in standing_of(one, now_ms=NOW_MS).sentence


@pytest.mark.parametrize(
    ("one", "at_ms", "ok"),
    [
        (provider(), None, False),
        (provider(last_success_ms=5), 5, True),
        (provider(last_failure_ms=5), 5, False),
        (provider(last_success_ms=5, last_failure_ms=6), 6, False),
        (provider(last_success_ms=7, last_failure_ms=6), 7, True),
    ],
)
def test_its_last_use_is_the_later_of_both(one: Provider, at_ms: int | None, ok: bool) -> None:
    assert (last_used_ms(one), was_success(one)) == (at_ms, ok)
