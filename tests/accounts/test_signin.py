"""Signing in: right or wrong, and how often one may be wrong."""

from itertools import count

import pytest

from billhook.accounts.signin import FAILURES_PER_ACCOUNT, FAILURES_PER_ADDRESS, Attempt, Doorkeeper
from billhook.accounts.users import User
from billhook.errors import InvalidParameters, RateLimited
from billhook.storage.database import Database
from billhook.storage.vault import Vault
from billhook.web.failures import Failures
from billhook.web.throttle import WINDOW_SECONDS
from tests.accounts.people import PASSWORD, person

VAULT = Vault("a master key of at least 32 characters")
MANY = count()


@pytest.fixture
def doorkeeper() -> Doorkeeper:
    return Doorkeeper(VAULT, Failures(VAULT))


async def knock(
    doorkeeper: Doorkeeper,
    db: Database,
    password: str = PASSWORD,
    *,
    email: str = "ada@example.com",
    address: str = "",
    known: str = "",
    at: float = 0.0,
) -> User:
    where = address or f"10.0.{next(MANY) % 65536 // 256}.{next(MANY) % 256}"
    return (await doorkeeper.sign_in(db, Attempt(email, password, where, known), now=at)).user


async def fail(doorkeeper: Doorkeeper, db: Database, times: int, **how: object) -> None:
    for _ in range(times):
        with pytest.raises(InvalidParameters, match="is not right"):
            await knock(doorkeeper, db, "wrong", **how)  # type: ignore[arg-type]


async def test_the_right_password_signs_in(db: Database) -> None:
    ada = await person(db, "ada@example.com")
    assert (await knock(Doorkeeper(VAULT, Failures(VAULT)), db, email=" Ada@Example.com ")).id == ada.id


@pytest.mark.parametrize("email", ["ada@example.com", "nobody@example.com", "", "é\0", "\ud800"])
async def test_every_refusal_reads_alike(db: Database, email: str) -> None:
    await person(db, "ada@example.com")
    with pytest.raises(InvalidParameters, match="^password: the email address or the password is not right$"):
        await knock(Doorkeeper(VAULT, Failures(VAULT)), db, "wrong", email=email)


async def test_an_account_may_fail_ten_times_in_five_minutes_from_anywhere(
    db: Database, doorkeeper: Doorkeeper
) -> None:
    await person(db, "ada@example.com")
    await fail(doorkeeper, db, FAILURES_PER_ACCOUNT)
    with pytest.raises(RateLimited) as refused:
        await knock(doorkeeper, db)
    assert refused.value.retry_after_seconds == WINDOW_SECONDS
    assert await knock(doorkeeper, db, at=WINDOW_SECONDS)


async def test_who_has_signed_in_before_is_not_locked_out_by_others(db: Database, doorkeeper: Doorkeeper) -> None:
    ada = await person(db, "ada@example.com")
    await fail(doorkeeper, db, FAILURES_PER_ACCOUNT)
    assert await knock(doorkeeper, db, known=doorkeeper.known_browser(ada.id))


async def test_a_known_browser_may_not_guess_without_end_either(db: Database, doorkeeper: Doorkeeper) -> None:
    ada = await person(db, "ada@example.com")
    known = doorkeeper.known_browser(ada.id)
    await fail(doorkeeper, db, FAILURES_PER_ACCOUNT, known=known)
    with pytest.raises(RateLimited):
        await knock(doorkeeper, db, known=known)


async def test_a_browser_known_for_one_account_is_a_stranger_to_another(db: Database, doorkeeper: Doorkeeper) -> None:
    eve = await person(db, "eve@example.com")
    await person(db, "ada@example.com")
    await fail(doorkeeper, db, FAILURES_PER_ACCOUNT)
    with pytest.raises(RateLimited):
        await knock(doorkeeper, db, known=doorkeeper.known_browser(eve.id))
    with pytest.raises(RateLimited):
        await knock(doorkeeper, db, known="é")


async def test_an_address_may_fail_thirty_times_in_five_minutes(db: Database, doorkeeper: Doorkeeper) -> None:
    await person(db, "ada@example.com")
    for number in range(FAILURES_PER_ADDRESS):
        await fail(doorkeeper, db, 1, email=f"user{number}@example.com", address="2001:db8::1")
    with pytest.raises(RateLimited):
        await knock(doorkeeper, db, address="2001:db8::2")
    assert await knock(doorkeeper, db, address="2001:db8:0:1::1")


async def test_failures_of_neighbours_do_not_lock_out_who_has_signed_in_before(
    db: Database, doorkeeper: Doorkeeper
) -> None:
    ada = await person(db, "ada@example.com")
    for number in range(FAILURES_PER_ADDRESS):
        await fail(doorkeeper, db, 1, email=f"user{number}@example.com", address="192.0.2.1")
    assert await knock(doorkeeper, db, address="192.0.2.1", known=doorkeeper.known_browser(ada.id))


async def test_what_is_remembered_of_an_address_is_short_and_forgotten(db: Database, doorkeeper: Doorkeeper) -> None:
    await fail(doorkeeper, db, 1, email="x" * 500_000 + "@example.com", address="192.0.2.1")
    window = doorkeeper._accounts
    assert len(repr(list(window.moments))) < 300
    (key,) = window.moments
    assert window.wait_seconds(key, WINDOW_SECONDS) == 0
    assert not window.moments


async def test_who_is_signed_in_may_not_guess_the_password_without_end(db: Database, doorkeeper: Doorkeeper) -> None:
    ada = await person(db, "ada@example.com")
    for _ in range(FAILURES_PER_ACCOUNT):
        assert not await doorkeeper.confirm(db, ada, "wrong", now=0.0)
    with pytest.raises(RateLimited):
        await doorkeeper.confirm(db, ada, PASSWORD, now=1.0)
    assert await doorkeeper.confirm(db, ada, PASSWORD, now=WINDOW_SECONDS)


async def test_signing_in_rightly_uses_nothing_up(db: Database, doorkeeper: Doorkeeper) -> None:
    await person(db, "ada@example.com")
    for _ in range(FAILURES_PER_ADDRESS + 1):
        assert await knock(doorkeeper, db, address="192.0.2.1")


async def test_only_wrong_ones_are_told_to_the_other_processes(db: Database) -> None:
    ada, failures = await person(db, "ada@example.com"), Failures(VAULT)
    doorkeeper = Doorkeeper(VAULT, failures)
    await knock(doorkeeper, db)
    assert await doorkeeper.confirm(db, ada, PASSWORD, now=0.0)
    assert not any(window.untold for window in failures.windows.values())
    await fail(doorkeeper, db, 1)
    assert not await doorkeeper.confirm(db, ada, "wrong", now=0.0)
    assert {name: len(window.untold) for name, window in failures.windows.items()} == {
        "account": 2,
        "sign-in-address": 1,
    }


def test_an_attempt_does_not_show_its_password() -> None:
    assert PASSWORD not in repr(Attempt("ada@example.com", PASSWORD, "192.0.2.1", ""))
