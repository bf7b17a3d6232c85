"""Sign in with email and password; failures are limited by address and by account.

The limit of an account would let anybody lock its owner out by failing on and on. So a browser that has signed in
before has a limit of its own for that account, which others cannot use up (OWASP calls this a device cookie).
"""

import hmac
import math
from dataclasses import dataclass, field
from hashlib import sha256

from billhook.accounts.passwords import matches_aside
from billhook.accounts.users import User, find_by_email
from billhook.errors import InvalidParameters, RateLimited
from billhook.storage.database import Database
from billhook.storage.vault import Vault
from billhook.web.throttle import FailureWindow, neighbourhood

FAILURES_PER_ACCOUNT = 10  # in five minutes
FAILURES_PER_ADDRESS = 30
REFUSED = "the email address or the password is not right"


@dataclass(frozen=True)
class Attempt:
    email: str
    password: str = field(repr=False)
    address: str
    known: str  # what the browser brings along from an earlier sign-in, or nothing


class Doorkeeper:
    def __init__(self, vault: Vault) -> None:
        self._key = vault.derive("known browsers")
        self._accounts = FailureWindow(FAILURES_PER_ACCOUNT)
        self._addresses = FailureWindow(FAILURES_PER_ADDRESS)

    def known_browser(self, user_id: str) -> str:
        """What a browser keeps after signing in, to be told from strangers."""
        return hmac.new(self._key, user_id.encode(), sha256).hexdigest()

    async def sign_in(self, db: Database, attempt: Attempt, *, now: float) -> User:
        """`now` is of a clock that only moves forward. RateLimited before the password is looked at."""
        email = attempt.email.strip().lower()
        found = await self._find(db, email)
        known = found is not None and hmac.compare_digest(
            self.known_browser(found[0].id).encode(), attempt.known.encode()
        )
        account, origin = (email, known), neighbourhood(attempt.address)
        wait = max(self._accounts.wait_seconds(account, now), self._addresses.wait_seconds(origin, now))
        if wait > 0:
            raise RateLimited(retry_after_seconds=math.ceil(wait))
        # counted beforehand, for many may be under way at once
        self._accounts.add(account, now)
        self._addresses.add(origin, now)
        if not await matches_aside(attempt.password, found and found[1]) or found is None:
            raise InvalidParameters.of("password", REFUSED)
        self._accounts.forget(account, now)
        self._addresses.forget(origin, now)
        return found[0]

    async def _find(self, db: Database, email: str) -> tuple[User, str] | None:
        if "\0" in email or not email.isprintable():
            return None
        async with db.reading() as tx:
            return await find_by_email(tx, email)
