"""Groups and providers: names, limits, health in one word, secrets that end."""

import pytest

from billhook.errors import InvalidParameters
from billhook.groups.model import Health, SigningSecret, Status, valid_name, valid_rate_limit

NOW = 1_700_000_000_000

HEALTH = [
    (Health(), Status.WELL),
    (Health(last_success_ms=NOW, last_failure_ms=NOW - 1, next_slot_us=NOW + 100), Status.WELL),
    (Health(failures=1, failing_since_ms=NOW), Status.FAILING),
    (Health(failures=5, openings=1, open_until_ms=NOW + 1), Status.OPEN),
    (Health(failures=5, openings=1, open_until_ms=NOW), Status.FAILING),
    (Health(waits_until_ms=NOW + 1), Status.WAITING),
    (Health(waits_until_ms=NOW), Status.WELL),
    (Health(failures=1, waits_until_ms=NOW + 1), Status.WAITING),
    (Health(failures=5, open_until_ms=NOW + 1, waits_until_ms=NOW + 1), Status.OPEN),
]


@pytest.mark.parametrize(("health", "status"), HEALTH)
def test_health_is_one_word(health: Health, status: Status) -> None:
    assert health.status(NOW) is status


@pytest.mark.parametrize(("given", "kept"), [("x", "x"), ("  Ops team ", "Ops team"), ("ü" * 100, "ü" * 100)])
def test_a_name_is_kept_without_the_spaces_around(given: str, kept: str) -> None:
    assert valid_name(given) == kept


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "a\x00", "\ud800"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameters, match="name"):
        valid_name(name)


@pytest.mark.parametrize(("given", "kept"), [(None, None), (0, None), (1, 1), (1000, 1000)])
def test_a_rate_limit_is_kept(given: int | None, kept: int | None) -> None:
    assert valid_rate_limit(given) == kept


@pytest.mark.parametrize("limit", [-1, 1001, 10**30])
def test_a_rate_limit_out_of_bounds_is_refused(limit: int) -> None:
    with pytest.raises(InvalidParameters, match="rate_limit"):
        valid_rate_limit(limit)


def test_a_secret_ends_at_its_end() -> None:
    assert SigningSecret("x", None).is_live(NOW)
    assert SigningSecret("x", NOW + 1).is_live(NOW)
    assert not SigningSecret("x", NOW).is_live(NOW)


def test_a_secret_does_not_show_itself() -> None:
    assert "hidden" not in repr(SigningSecret("hidden", None))
