"""Sign in with email and password; failures are limited by address and by account.

The limits would let anybody lock an owner out by failing on and on. So a browser that has signed in before has a limit
of its own for that account, which others cannot use up (OWASP calls this a device cookie).
"""

import hmac
import math
from dataclasses import dataclass, field
from hashlib import sha256

from billhook.accounts.passwords import matches_aside
from billhook.accounts.users import LONGEST_EMAIL, User, find_by_email
from billhook.errors import InvalidParameters, RateLimited
from billhook.storage.database import Database
from billhook.storage.vault import Vault
from billhook.web.failures import Failures
from billhook.web.throttle import FailureWindow, neighbourhood

FAILURES_PER_ACCOUNT = 10  # in five minutes
FAILURES_PER_ADDRESS = 30
REFUSED = "the email address or the password is not right"

Count = tuple[FailureWindow, str]


@dataclass(frozen=True)
class Attempt:
    email: str
    password: str = field(repr=False)
    address: str
    known: str  # what the browser brings along from an earlier sign-in, or nothing


@dataclass(frozen=True)
class Entrant:
    """Who may come in, and the hash by which: it may be changed before they are in."""

    user: User
    password_hash: str = field(repr=False)


class Doorkeeper:
    def __init__(self, vault: Vault, failures: Failures) -> None:
        self._key = vault.derive("known browsers")
        self._accounts = failures.window("account", FAILURES_PER_ACCOUNT)
        self._addresses = failures.window("sign-in-address", FAILURES_PER_ADDRESS)

    def known_browser(self, user_id: str) -> str:
        """What a browser keeps after signing in, to be told from strangers."""
        return hmac.new(self._key, user_id.encode(), sha256).hexdigest()

    async def sign_in(self, db: Database, attempt: Attempt, *, now: float) -> Entrant:
        """`now` is of a clock that only moves forward. RateLimited before the password is looked at."""
        email = attempt.email.strip().lower()
        found = await _find(db, email)
        known = found is not None and self._knows(found[0], attempt.known)
        account: Count = (self._accounts, self._accounts.key_of("email", email, "known" if known else "stranger"))
        origin: Count = (self._addresses, self._addresses.key_of(neighbourhood(attempt.address)))
        counts = [account] if known else [account, origin]
        if not await _try(counts, attempt.password, found and found[1], now=now) or found is None:
            raise InvalidParameters.of("password", REFUSED)
        return Entrant(*found)

    async def confirm(self, db: Database, user: User, password: str, *, now: float) -> bool:
        """Whether somebody who is signed in knows the password. They may not guess without end either."""
        found = await _find(db, user.email)
        account: Count = (self._accounts, self._accounts.key_of("user", user.id))
        return await _try([account], password, found and found[1], now=now)

    def _knows(self, user: User, brought: str) -> bool:
        return hmac.compare_digest(self.known_browser(user.id).encode(), brought.encode("utf-8", "surrogatepass"))


async def _try(counts: list[Count], password: str, hashed: str | None, *, now: float) -> bool:
    """Counted as a failure beforehand, for many may be under way at once."""
    wait = max(window.wait_seconds(key, now) for window, key in counts)
    if wait > 0:
        raise RateLimited(retry_after_seconds=math.ceil(wait))
    for window, key in counts:
        window.add(key, now)
    is_right = await matches_aside(password, hashed)
    for window, key in counts:
        if is_right:
            window.forget(key, now)
        else:
            window.tell(key)
    return is_right


async def _find(db: Database, email: str) -> tuple[User, str] | None:
    if len(email) > LONGEST_EMAIL or not email.isprintable():
        return None
    async with db.reading() as tx:
        return await find_by_email(tx, email)
