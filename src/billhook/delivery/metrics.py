"""What Prometheus may read of deliveries. No label takes a value that a caller can make up."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from billhook.outbound.request import Exchange

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)  # seconds


class Tallies(Collector):
    """Counts in plain numbers: one thread counts them, and the library's locks cost more than the counting."""

    def __init__(self, registry: CollectorRegistry, name: str, help: str, label: str) -> None:
        self.counts: Counter[str] = Counter()
        self._named = (name, help, label)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        name, help, label = self._named
        family = CounterMetricFamily(name, help, labels=[label])
        for value, count in self.counts.items():
            family.add_metric([value], count)
        yield family


class DeliveryMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"billhook_{name}", help, registry=None)

        self._registry, self._tells_of_work = registry, False
        self.attempts = Tallies(
            registry, "billhook_attempts", "Attempts by what they came to: a class of status or an error", "outcome"
        )
        self.events = Tallies(registry, "billhook_delivery_events", "Lost leases and blocked targets", "event")
        self.events.counts.update({"lost_lease": 0, "blocked_target": 0})
        self.lag = Histogram(
            "billhook_delivery_lag_seconds",
            "From when a delivery was due to when its attempt began",
            buckets=LAG_BUCKETS,
            registry=registry,
        )
        self.oldest_due = gauge("delivery_oldest_due_seconds", "How long the oldest due delivery has been waiting")
        self.in_flight = gauge("deliveries_in_flight", "Attempts under way in this process")
        self.open_breakers = gauge("open_breakers", "Providers to which nothing is sent because too much failed")

    def tell_of_work(self) -> None:
        """By a process that delivers: from another, an eternal 0 would say that all is well when nobody delivers."""
        if self._tells_of_work:
            return
        self._tells_of_work = True
        self.attempts.counts["2xx"] += 0  # before the first success its share must be 0, not unknown
        for gauge in (self.oldest_due, self.in_flight, self.open_breakers):
            self._registry.register(gauge)

    def count(self, exchange: Exchange) -> None:
        self.attempts.counts[exchange.error or f"{(exchange.status or 0) // 100}xx"] += 1
        if exchange.error == "blocked_address":
            self.events.counts["blocked_target"] += 1
