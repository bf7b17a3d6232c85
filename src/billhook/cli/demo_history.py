"""A past for the demo: a week of deliveries that nobody sent, as the receiver would have answered them."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import orjson
from sqlalchemy import insert

from billhook.cli.demo_messages import message
from billhook.cli.demo_receiver import WELL, Reply, headers_of, reply_to
from billhook.cli.demo_set_up import Placed, Placement
from billhook.delivery import counts
from billhook.delivery.attempt import result_of
from billhook.delivery.health import failed, succeeded
from billhook.delivery.outcomes import detail_of
from billhook.delivery.retry import Decision, Schedule, decide
from billhook.delivery.store import State, attempts, deliveries, notifications
from billhook.groups.model import Health
from billhook.groups.store import change_provider
from billhook.outbound.answer import kept_headers
from billhook.outbound.request import Exchange, Timings
from billhook.storage.database import Transaction
from billhook.storage.ids import ALPHABET, LENGTH, first_id

DAYS = 7
BREAK_MS = 3 * 60_000  # between the past and the present, so that what was tried again has come to its end
GAP_MS = 8 * 60_000  # from one notification to the next, at the busiest time of the day
COUNTED = 60  # attempts of a provider in the busiest hour; most are only counted: the stream would dwarf a true past
NIGHT, WEEKEND = 0.5, 0.6  # of the busiest time
STAMP = len("ntf_") + 10  # characters of an id up to the end of its moment
CONNECT_MS = 0.4
# Of a provider's health; its breaker is closed, so that it is soon seen to open.
FELT = ("failures", "failed_attempts", "failing_since_ms", "last_success_ms", "last_failure_ms")
SEED = 1  # whichever it is, it is the same past every time


@dataclass
class Past:
    """Rows as the worker would have left them behind."""

    placement: Placement
    schedule: Schedule
    now_ms: int
    dice: random.Random = field(default_factory=lambda: random.Random(SEED))
    notifications: list[dict[str, Any]] = field(default_factory=list)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    health: dict[str, Health] = field(default_factory=dict)  # by provider
    visits: Counter[str] = field(default_factory=Counter)  # by provider

    def tell(self) -> "Past":
        for number, at_ms in enumerate(moments(self.now_ms, self.dice)):
            self._send(number, at_ms)
        return self

    def _send(self, number: int, at_ms: int) -> None:
        group, said = message(number)
        group_id = self.placement.group_ids[group]
        sent = {"id": self._id("ntf", at_ms), "organization_id": self.placement.organization_id, "group_id": group_id}
        words = {"sender": self.placement.sender, "title": said.title, "content": said.content, "created_ms": at_ms}
        self.notifications.append(sent | words)
        for provider in self.placement.providers:
            if provider.group_id == group_id:
                row = sent | {"id": self._id("dlv", at_ms), "notification_id": sent["id"], "provider_id": provider.id}
                self.deliveries.append(row | self._deliver(row["id"], provider, at_ms))

    def _deliver(self, delivery_id: str, provider: Placed, sent_ms: int) -> dict[str, Any]:
        """What becomes of it, attempt by attempt."""
        tried = charged = 0
        at_ms, exchange, decision = sent_ms, None, Decision(State.PENDING)
        if is_after(provider.sample.paused, sent_ms, self.now_ms):
            decision = Decision(State.HELD)
        while decision.state == State.PENDING and at_ms < self.now_ms:
            exchange, tried = self._exchange(provider, at_ms), tried + 1
            ended_ms = at_ms + round(exchange.timings.total)
            decision = self._decide(exchange, charged, sent_ms, ended_ms)
            charged += decision.is_charged
            next_ms = ended_ms + round(decision.wait.total_seconds() * 1000)
            self._log(delivery_id, tried, exchange, at_ms, next_ms if decision.state == State.PENDING else None)
            self._feel(provider.id, decision, ended_ms)
            at_ms = next_ms
        return {
            "state": decision.state,
            "attempts": tried,
            "charged": charged,
            "created_ms": sent_ms,
            "since_ms": sent_ms,
            "due_ms": at_ms,
            "finished_ms": at_ms if decision.state in (State.DELIVERED, State.FAILED) else None,
            "status": exchange.status if exchange else None,
            "error": exchange.error if exchange else None,
        }

    def _decide(self, exchange: Exchange, charged: int, sent_ms: int, ended_ms: int) -> Decision:
        return decide(
            result_of(exchange),
            charged=charged,
            age=timedelta(milliseconds=ended_ms - sent_ms),
            schedule=self.schedule,
            now=datetime.fromtimestamp(ended_ms / 1000, UTC),
            roll=self.dice.random(),
        )

    def _feel(self, provider_id: str, decision: Decision, now_ms: int) -> None:
        if not decision.is_charged:  # it asked us to wait: neither well nor ill
            return
        rule = succeeded if decision.state == State.DELIVERED else failed
        self.health[provider_id] = rule(self.health.get(provider_id, Health()), now_ms)

    def _exchange(self, provider: Placed, at_ms: int) -> Exchange:
        self.visits[provider.id] += 1
        reply = reply_of(provider, self.visits[provider.id], at_ms, self.now_ms)
        took_ms = duration_of(reply, self.dice)
        timings = Timings(None, CONNECT_MS, None, took_ms if reply else None, took_ms)
        if reply is None:
            return Exchange(None, "connection_reset", "127.0.0.1", timings, (), b"", truncated=False)
        headers = kept_headers(tuple((name.encode(), value.encode()) for name, value in headers_of(reply)))
        return Exchange(reply.status, None, "127.0.0.1", timings, headers, reply.body.encode(), truncated=False)

    def _log(self, delivery_id: str, number: int, exchange: Exchange, at_ms: int, next_ms: int | None) -> None:
        row = {"delivery_id": delivery_id, "number": number, "at_ms": at_ms, "next_ms": next_ms}
        came = {"status": exchange.status, "error": exchange.error, "body": exchange.body.decode()}
        self.attempts.append(row | came | {"detail": orjson.dumps(detail_of(exchange)).decode()})

    def _id(self, prefix: str, at_ms: int) -> str:
        tail = self.dice.choices(ALPHABET, k=len(prefix) + 1 + LENGTH - STAMP)
        return first_id(prefix, at_ms)[:STAMP] + "".join(tail)

    def counted(self) -> Iterator[counts.Key]:
        """For the charts: every provider, hour by hour, until this one."""
        for provider, back in product(self.placement.providers, range(24 * DAYS, 0, -1)):
            at_ms = self.now_ms - back * counts.HOUR_MS
            if is_after(provider.sample.paused, at_ms, self.now_ms):
                continue
            for visit in range(round(COUNTED * busyness(at_ms) * self.dice.uniform(0.7, 1.3))):
                reply = reply_of(provider, visit, at_ms, self.now_ms)
                is_ok = reply is not None and reply.status < 300
                yield counts.key_of(provider.id, at_ms=at_ms, is_ok=is_ok, milliseconds=duration_of(reply, self.dice))


def moments(now_ms: int, dice: random.Random) -> Iterator[int]:
    """When notifications were sent; the oldest first."""
    at_ms = now_ms - DAYS * 24 * counts.HOUR_MS
    while (at_ms := at_ms + 1 + round(dice.expovariate(busyness(at_ms) / GAP_MS))) < now_ms - BREAK_MS:
        yield at_ms


def busyness(at_ms: int) -> float:
    """Up to 1; less by night and at the weekend."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return (1.0 if 7 <= moment.hour < 18 else NIGHT) * (WEEKEND if moment.weekday() >= 5 else 1.0)


def is_after(ago: timedelta | None, at_ms: int, now_ms: int) -> bool:
    return ago is not None and at_ms > now_ms - ago / timedelta(milliseconds=1)


def reply_of(provider: Placed, visit: int, at_ms: int, now_ms: int) -> Reply | None:
    broke = provider.sample.broke
    if broke is not None and not is_after(broke, at_ms, now_ms):
        return WELL
    return reply_to(provider.sample.path.partition("?")[0], visit)


def duration_of(reply: Reply | None, dice: random.Random) -> float:
    return CONNECT_MS + 1000 * (reply.seconds if reply else 0.0) * dice.uniform(1.0, 1.8) + dice.expovariate(1 / 6)


async def write_past(tx: Transaction, past: Past) -> None:
    await tx.execute(insert(notifications), past.notifications)
    await tx.execute(insert(deliveries), past.deliveries)
    await tx.execute(insert(attempts), past.attempts)
    await counts.add(tx, past.counted())
    for provider_id, health in past.health.items():
        await change_provider(tx, provider_id, {name: getattr(health, name) for name in FELT})
