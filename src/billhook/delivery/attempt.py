"""One attempt of one delivery: build the request, send it, decide what follows."""

import random
import time
from datetime import UTC, datetime, timedelta
from typing import AnyStr

from billhook.delivery.outcomes import Outcome
from billhook.delivery.queue import LEASE_MS, Leased
from billhook.delivery.retry import Result, Schedule, decide
from billhook.groups.model import Provider
from billhook.outbound.answer import LONGEST_VALUE
from billhook.outbound.client import Sender
from billhook.outbound.request import Asked, Exchange, Outgoing
from billhook.providers.kinds import MASK, Message, Stamp
from billhook.providers.registry import provider_type


async def attempt(sender: Sender, leased: Leased, *, schedule: Schedule, claimed_at: float) -> Outcome:
    """`claimed_at` is when it was claimed on this process's monotonic clock, to tell the database's time from.

    TooLate when its lease may have lapsed before it could be sent: somebody else may be sending it.
    """
    began_ms = _now_ms(leased, claimed_at)
    request = build(leased.provider, leased.title, leased.content, leased.id, now_ms=began_ms)
    sent = await sender.send(request, not_after=claimed_at + LEASE_MS / 1000)
    exchange = told(sent, request, leased.provider)
    ended_ms = _now_ms(leased, claimed_at)
    decision = decide(
        result_of(exchange),
        charged=leased.charged,
        age=timedelta(milliseconds=ended_ms - leased.since_ms),
        schedule=schedule,
        now=datetime.fromtimestamp(ended_ms / 1000, UTC),
        roll=random.random(),
    )
    return Outcome(leased, exchange, decision, at_ms=began_ms, now_ms=ended_ms)


def build(
    provider: Provider, title: str, content: str, webhook_id: str, *, now_ms: int, is_test: bool = False
) -> Outgoing:
    """The request as the provider is now: edits apply to what is queued."""
    stamp = Stamp(webhook_id, now_ms // 1000, provider.live_secrets(now_ms), is_test)
    return provider_type(provider.type).request(provider.config, Message(title, content), stamp)


def told(exchange: Exchange, request: Outgoing, provider: Provider) -> Exchange:
    """What came of it together with what was asked, both without what is secret."""
    asked = provider_type(provider.type).asked(provider.config, request)
    return concealed(exchange, provider, asked)


def concealed(exchange: Exchange, provider: Provider, asked: Asked | None = None) -> Exchange:
    """Without what the receiver was told in confidence: some say back all that they were sent."""
    if not exchange.body and not exchange.headers:
        return exchange._replace(asked=asked)
    hidden = [*provider_type(provider.type).secrets(provider.config), *(each.secret for each in provider.secrets)]
    is_cut = exchange.truncated or exchange.error is not None
    body = _masked(exchange.body, [secret.encode() for secret in hidden], MASK.encode(), is_cut=is_cut)
    headers = tuple(
        (name, _masked(value, hidden, MASK, is_cut=len(value) >= LONGEST_VALUE)) for name, value in exchange.headers
    )
    return exchange._replace(body=body, headers=headers, asked=asked)


def _masked(text: AnyStr, secrets: list[AnyStr], mask: AnyStr, *, is_cut: bool) -> AnyStr:
    """If it was cut off, that may have been in the middle of a secret."""
    for secret in secrets:
        text = text.replace(secret, mask)
    begun = max((_overlap(text, secret) for secret in secrets), default=0) if is_cut else 0
    return text[:-begun] + mask if begun else text


def _overlap(text: AnyStr, secret: AnyStr) -> int:
    """How much of the beginning of the secret the text ends with."""
    return next((length for length in range(len(secret) - 1, 0, -1) if text.endswith(secret[:length])), 0)


def result_of(exchange: Exchange) -> Result:
    hint = next((value for name, value in exchange.headers if name == "retry-after"), None)
    return Result(exchange.status, exchange.error, hint)


def _now_ms(leased: Leased, claimed_at: float) -> int:
    return leased.claimed_ms + round((time.monotonic() - claimed_at) * 1000)
