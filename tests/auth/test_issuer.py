"""Trading credentials for tokens: what is counted, and what is noted for the audit."""

import httpx
import pytest

from billhook.app import App
from billhook.auth.context import Auth
from billhook.auth.throttle import FAILURES_PER_PAIR
from billhook.errors import RateLimited, Unauthenticated
from tests.support import Registered


def fail(auth: Auth, client_id: str) -> None:
    auth.issuer.authenticate(client_id, "wrong", address="192.0.2.1")


async def test_every_request_is_counted_by_its_outcome(app: App, http: httpx.AsyncClient, robot: Registered) -> None:
    await http.post("/auth", json=robot.credentials)
    for client_id in [robot.client.id] * FAILURES_PER_PAIR + ["cli_nobody"]:
        with pytest.raises(Unauthenticated):
            fail(app.auth, client_id)
    with pytest.raises(RateLimited):
        fail(app.auth, robot.client.id)
    assert app.metrics.token_requests.counts == {
        "issued": 1,
        "wrong-secret": FAILURES_PER_PAIR,
        "unknown-client": 1,
        "rate-limited": 1,
    }


async def test_refusals_are_noted_for_clients_that_exist_and_for_no_others(auth: Auth, robot: Registered) -> None:
    for client_id in (robot.client.id, "cli_made_up"):
        with pytest.raises(Unauthenticated):
            fail(auth, client_id)
    assert {(client_id, outcome) for client_id, _, outcome, _ in auth.activity.counts} == {
        (robot.client.id, "wrong-secret")
    }
