"""What Prometheus may read. No label takes a value that a caller can make up."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds

__all__ = ["OPENMETRICS", "Metrics"]


class Metrics:
    """The metrics of one application; a registry of its own, so that two in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "billhook_http_requests", "Requests answered", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "billhook_http_request_seconds", "Time to answer", ["route"], buckets=BUCKETS, registry=self.registry
        )
        self.token_requests = Counter(
            "billhook_token_requests", "Token requests by outcome", ["outcome"], registry=self.registry
        )
        self.database_up = Gauge(
            "billhook_database_up", "Whether the database answered last time", registry=self.registry
        )
        self.clients = Gauge("billhook_clients", "Registered clients held in memory", registry=self.registry)
        self.key_age = Gauge(
            "billhook_signing_key_age_seconds", "Age of the key that signs tokens", registry=self.registry
        )
        self.activity_pending = Gauge(
            "billhook_activity_pending", "Tallies of token requests not yet written", registry=self.registry
        )

    def observer(self, method: str, route: str, status: int) -> Callable[[float], None]:
        """Counts one kind of request and the seconds it took."""
        count, took = self.requests.labels(method, route, status), self.seconds.labels(route)

        def observe(seconds: float) -> None:
            count.inc()
            took.observe(seconds)

        return observe

    def render(self) -> bytes:
        rendered: bytes = generate_latest(self.registry)  # type: ignore[no-untyped-call]
        return rendered
