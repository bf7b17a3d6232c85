"""Trade credentials for a token: from memory alone, with no read or write of the database."""

import math
import time
from typing import NamedTuple

from billhook.auth.activity import Activity
from billhook.auth.credentials import Refused, Verdict, check
from billhook.auth.manage import secret_digest
from billhook.auth.registry import Registry
from billhook.auth.throttle import Throttle
from billhook.auth.tokens import Claims, new_token_id, payload_of
from billhook.errors import RateLimited, Unauthenticated
from billhook.storage.vault import Vault
from billhook.web.failures import Failures
from billhook.web.lanes import Steps
from billhook.web.metrics import Metrics


class Issued(NamedTuple):
    token: bytes
    expires_in: int
    scope: str
    not_before: int


class Issuer:
    def __init__(
        self,
        registry: Registry,
        vault: Vault,
        *,
        base_url: str,
        activity: Activity,
        failures: Failures,
        metrics: Metrics,
    ) -> None:
        self.registry = registry
        self.base_url = base_url
        self._digest = secret_digest(vault)
        self._activity, self._nobodys = activity, Activity()
        self._throttle = Throttle(failures)
        self._outcomes = metrics.token_requests

    def authenticate(self, client_id: str, client_secret: str, *, address: str, challenge: str = "Bearer") -> Verdict:
        """The client these credentials belong to; Unauthenticated, or RateLimited after too many failures."""
        self.registry.must_be_fresh()
        now = time.time()
        verdict = check(
            self.registry, self._digest, client_id=client_id, client_secret=client_secret, address=address, now=now
        )
        if verdict.refused is not None:
            self._refuse(client_id, verdict.refused, address=address, now=now, challenge=challenge)
        return verdict

    def issue(self, verdict: Verdict, *, address: str, scope: str | None = None) -> Steps[Issued]:
        """`scope`: what the token shall be good for, when that is less than what the client may do."""
        now = time.time()
        client = verdict.client
        scope = client.scope if scope is None else scope
        issued_at = int(now)
        ends_at = issued_at + client.lifespan_seconds
        claims = Claims(client.id, client.organization_id, scope, issued_at, ends_at, new_token_id(), client.epoch)
        token = yield from self.registry.sign(payload_of(claims, issuer=self.base_url), now)
        self._activity.issued(client.id, verdict.secret_id, address=address, now=now)
        self._outcomes.add("issued")
        return Issued(token, client.lifespan_seconds, scope, client.not_before)

    def _refuse(self, client_id: str, reason: Refused, *, address: str, now: float, challenge: str) -> None:
        if reason is Refused.UNKNOWN:  # noted nowhere, but with the same work: its absence could be timed
            self._nobodys.refused("", reason, address=address, now=now)
        else:
            self._activity.refused(client_id, reason, address=address, now=now)
        wait = self._throttle.fail(address, client_id, time.monotonic())
        self._outcomes.add("rate-limited" if wait > 0 else reason)
        if wait > 0:
            raise RateLimited(retry_after_seconds=math.ceil(wait))
        raise Unauthenticated(challenge=challenge, detail=reason)
