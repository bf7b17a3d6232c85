"""What Prometheus may read. No label takes a value that a caller can make up."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds

__all__ = ["OPENMETRICS", "Metrics"]


@dataclass(slots=True)
class Tally:
    """Requests of one method, route and status."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


class RequestTallies(Collector):
    """Requests, counted in plain numbers: one thread counts them, and the library's locks cost 5 us a request."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str, int], Tally] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        tally = self.tallies.get((method, route, status))
        if tally is None:
            tally = self.tallies[method, route, status] = Tally()
        tally.add(seconds)

    def collect(self) -> Iterator[Metric]:
        labels = ["method", "route", "status"]
        counts = CounterMetricFamily("billhook_http_requests", "Requests answered", labels=labels)
        times = HistogramMetricFamily("billhook_http_request_seconds", "Time to answer", labels=labels)
        for (method, route, status), tally in self.tallies.items():
            names, edges = [method, route, str(status)], [*map(str, BUCKETS), "+Inf"]
            counts.add_metric(names, sum(tally.buckets))
            times.add_metric(names, list(zip(edges, accumulate(tally.buckets), strict=True)), tally.seconds)
        yield counts
        yield times


class OutcomeTallies(Collector):
    """Token requests by outcome, in plain numbers for the same reason."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, outcome: str) -> None:
        self.counts[outcome] = self.counts.get(outcome, 0) + 1

    def collect(self) -> Iterator[Metric]:
        counts = CounterMetricFamily("billhook_token_requests", "Token requests by outcome", labels=["outcome"])
        for outcome, count in self.counts.items():
            counts.add_metric([outcome], count)
        yield counts


class Metrics:
    """The metrics of one application; a registry of its own, so that two in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = RequestTallies()
        self.registry.register(self.requests)
        self.token_requests = OutcomeTallies()
        self.registry.register(self.token_requests)
        self.registry_age = Gauge(
            "billhook_registry_age_seconds",
            "Time since the database was last read; grows while it is away",
            registry=None,
        )
        self.clients = Gauge("billhook_clients", "Registered clients held in memory", registry=None)
        self.key_age = Gauge("billhook_signing_key_age_seconds", "Age of the key that signs tokens", registry=None)
        self.activity_pending = Gauge(
            "billhook_activity_pending", "Tallies of token requests not yet written", registry=None
        )

    def tell_of_tokens(self) -> None:
        """By a process that issues them: a worker has no registry of clients, which is not one that is empty."""
        for gauge in (self.registry_age, self.clients, self.key_age, self.activity_pending):
            self.registry.register(gauge)

    def render(self) -> bytes:
        rendered: bytes = generate_latest(self.registry)  # type: ignore[no-untyped-call]
        return rendered
