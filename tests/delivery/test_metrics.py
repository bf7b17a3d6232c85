"""What Prometheus reads of deliveries."""

import httpx
from prometheus_client import CollectorRegistry

from billhook.accounts.installation import Installation
from billhook.app import App
from billhook.delivery.metrics import DeliveryMetrics
from billhook.outbound.request import Exchange, Timings
from tests.delivery.desk import Desk
from tests.delivery.floor import gauged, provider_at, send, settled, when
from tests.delivery.marks import nobody_delivers, tuned
from tests.delivery.receivers import Gate, in_turn, response
from tests.outbound.receivers import RawReceiver
from tests.support import on_one_engine


def exchange(status: int | None, error: str | None = None) -> Exchange:
    return Exchange(status, error, None, Timings(None, None, None, None, 1.0), (), b"", truncated=False)


def test_attempts_are_counted_by_class_of_status_or_by_error() -> None:
    metrics = DeliveryMetrics(CollectorRegistry())
    for status in (200, 204, 302, 404, 500, 503):
        metrics.count(exchange(status))
    metrics.count(exchange(None, "timeout"))
    metrics.count(exchange(200, "connection_reset"))
    metrics.count(exchange(None, "blocked_address"))
    kinds = {"2xx": 2, "3xx": 1, "4xx": 1, "5xx": 2, "timeout": 1, "connection_reset": 1, "blocked_address": 1}
    assert metrics.attempts.counts == kinds
    assert metrics.events.counts == {"lost_lease": 0, "blocked_target": 1}


NAMES = [
    'billhook_attempts_total{outcome="2xx"} 0.0',
    'billhook_delivery_events_total{event="lost_lease"} 0.0',
    'billhook_delivery_events_total{event="blocked_target"} 0.0',
    "billhook_delivery_lag_seconds_bucket",
    "billhook_delivery_oldest_due_seconds",
    "billhook_deliveries_in_flight 0.0",
    "billhook_open_breakers 0.0",
]


@on_one_engine
async def test_every_metric_is_there_from_the_beginning(http: httpx.AsyncClient) -> None:
    shown = (await http.get("/metrics")).text
    assert [name for name in NAMES if name not in shown] == []


@on_one_engine
@nobody_delivers
async def test_who_does_not_deliver_tells_nothing_of_what_waits(http: httpx.AsyncClient) -> None:
    shown = (await http.get("/metrics")).text
    assert "billhook_delivery_oldest_due_seconds" not in shown
    assert "billhook_open_breakers" not in shown
    assert "billhook_clients" in shown


async def test_attempts_in_flight_lag_and_outcomes_are_measured(
    installation: Installation, app: App, http: httpx.AsyncClient
) -> None:
    gate = Gate()
    async with RawReceiver(gate) as slow, RawReceiver(in_turn(response(500), response(200))) as moody:
        held = await send(app.hub, await provider_at(installation, slow.url()))
        await settled(app.hub.db, await send(app.hub, await provider_at(installation, moody.url())))
        await when(lambda: gauged(app.hub.metrics.in_flight) == 1)
        shown = (await http.get("/metrics")).text
        assert 'billhook_attempts_total{outcome="5xx"} 1.0' in shown
        assert 'billhook_attempts_total{outcome="2xx"} 1.0' in shown
        assert "billhook_deliveries_in_flight 1.0" in shown
        assert "billhook_delivery_lag_seconds_count 3.0" in shown
        gate.open()
        await settled(app.hub.db, held)
    await when(lambda: gauged(app.hub.metrics.in_flight) == 0)


@tuned(outbound_allow="")
@on_one_engine
async def test_a_target_that_is_not_allowed_is_counted(installation: Installation, app: App, desk: Desk) -> None:
    blocked = await send(app.hub, await provider_at(installation, "http://127.0.0.1:9/"))
    failed = await desk.settled(blocked, "failed")
    assert (failed["attempts"], failed["error"]) == (1, "blocked_address")
    assert app.hub.metrics.events.counts["blocked_target"] == 1
    assert app.hub.metrics.attempts.counts == {"2xx": 0, "blocked_address": 1}
