"""When a key signs, is published, and is followed by the next. All as a simulation: no clock, no database."""

from datetime import UTC, datetime, timedelta

from billhook.auth import keys as rules
from billhook.auth.keys import ANNOUNCEMENT, JWKS_MAX_AGE, PERIOD, RETENTION, Key, KeyState, new_key
from billhook.auth.model import LONGEST_LIFESPAN

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def rotated(keys: list[Key], now: datetime) -> list[Key]:
    """What the upkeep does at `now`."""
    due = rules.successor_due(keys, now)
    return [*keys, new_key(now=now, active_from=due)] if due else keys


def test_the_first_key_signs_at_once() -> None:
    keys = rotated([], START)
    assert rules.signer(keys, START) is keys[0]
    assert rules.published(keys, START) == keys


def test_nothing_is_due_in_the_middle_of_a_keys_life() -> None:
    keys = rotated([], START)
    assert rules.successor_due(keys, START + PERIOD - ANNOUNCEMENT - HOUR) is None


def test_the_next_key_is_announced_a_day_before_it_signs() -> None:
    keys = rotated(rotated([], START), START + PERIOD - ANNOUNCEMENT)
    old, new = keys
    assert new.active_from == START + PERIOD
    just_before, then = START + PERIOD - timedelta(seconds=1), START + PERIOD
    assert rules.published(keys, just_before) == [old, new]
    assert rules.signer(keys, just_before) is old
    assert rules.signer(keys, then) is new


def test_a_retired_key_is_kept_until_its_last_token_has_expired() -> None:
    keys = rotated(rotated([], START), START + PERIOD - ANNOUNCEMENT)
    retired_at = START + PERIOD
    assert keys[0] in rules.published(keys, retired_at + LONGEST_LIFESPAN + JWKS_MAX_AGE)
    assert keys[0] not in rules.published(keys, retired_at + RETENTION)


def test_a_service_that_slept_past_the_end_of_its_key_still_announces_the_next_for_a_day() -> None:
    wakes = START + PERIOD + timedelta(days=100)
    keys = rotated(rotated([], START), wakes)
    assert rules.signer(keys, wakes) is keys[0]
    assert keys[1].active_from == wakes + ANNOUNCEMENT


def test_an_emergency_leaves_only_the_new_key() -> None:
    old = new_key(now=START, active_from=START)
    dropped = Key(old.private, old.created_at, old.active_from, dropped_at=START + HOUR)
    fresh = new_key(now=START + HOUR, active_from=START + HOUR)
    assert rules.published([dropped, fresh], START + HOUR) == [fresh]
    assert rules.states([dropped, fresh], START + HOUR) == {old.kid: KeyState.DROPPED, fresh.kid: KeyState.ACTIVE}


def test_a_consumer_that_caches_keys_never_meets_a_token_it_cannot_check() -> None:
    """A year of hours: a consumer refetches only when its copy is as old as it may be, and never on an unknown key."""
    keys: list[Key] = []
    known: list[Key] = []
    issued: list[tuple[datetime, Key]] = []
    for hour in range(24 * 365):
        now = START + hour * HOUR
        keys = rotated(keys, now)
        signer = rules.signer(keys, now)
        assert signer is not None
        assert hour == 0 or signer in known, "signed with a key that a cache of an hour has not seen"
        issued = [(end, key) for end, key in issued if end > now] + [(now + LONGEST_LIFESPAN, signer)]
        known = rules.published(keys, now)
        assert all(key in known for _, key in issued), "a token outlived its key"
        keys = [key for key in keys if key in known]
    assert len(known) <= 3


def test_the_key_id_is_the_rfc_7638_thumbprint() -> None:
    key = new_key(now=START, active_from=START)
    assert key.kid == key.jwk.thumbprint()
    assert "d" not in key.jwk.as_dict(private=False)
