"""What became of a delivery and what happens next, in plain words. Pure."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from billhook.console.reasons import Reason, reason_of
from billhook.delivery.health import OPENS_AT
from billhook.delivery.holding import HELD_MS
from billhook.delivery.store import State
from billhook.groups.model import ProviderState

BADGES = {
    State.PENDING: "",
    State.DELIVERED: "ok",
    State.FAILED: "bad",
    State.HELD: "warn",
    State.CANCELLED: "",
}


@dataclass(frozen=True)
class Fate:
    text: str
    reason: Reason | None = None  # of the last attempt, when it failed
    next_ms: int | None = None  # the next attempt
    until_ms: int | None = None  # how long it is held
    can_hurry: bool = True  # whether it would be attempted at once if it were delivered again


def next_ms(delivery: Any) -> int | None:
    """When a row of a list is attempted next: not before its receiver is given another chance. None: it is not."""
    if delivery.state != State.PENDING:
        return None
    return int(max(delivery.due_ms, delivery.open_until_ms, delivery.waits_until_ms))


def fate_of(delivery: Row[Any], provider: Row[Any], *, now_ms: int) -> Fate:
    tell = {
        State.PENDING: _pending,
        State.DELIVERED: _delivered,
        State.FAILED: _failed,
        State.HELD: _held,
        State.CANCELLED: _cancelled,
    }
    return tell[State(delivery.state)](delivery, provider, now_ms)


def _pending(delivery: Row[Any], provider: Row[Any], now_ms: int) -> Fate:
    if delivery.lease is not None:
        return Fate(f"Attempt {delivery.attempts + 1} is under way.", can_hurry=False)
    reason = reason_of(delivery.status, delivery.error)
    waits_ms = max(provider.open_until_ms, provider.waits_until_ms)
    at_ms = max(delivery.due_ms, waits_ms)
    return Fate(_why_pending(delivery, provider, now_ms), reason, next_ms=at_ms, can_hurry=waits_ms <= now_ms)


def _why_pending(delivery: Row[Any], provider: Row[Any], now_ms: int) -> str:
    if provider.open_until_ms > now_ms:
        how = f"{provider.failures} times in a row" if provider.failures >= OPENS_AT else "half of the time"
        return f"The receiver failed {how}, so everything for it waits; then one delivery finds out whether it is back."
    if provider.waits_until_ms > now_ms:
        return "The receiver asked for a pause, so everything for it waits."
    if delivery.status is None and delivery.error is None:
        return "Waits to be delivered again." if delivery.attempts else "Waits for its first attempt."
    return f"Attempt {delivery.attempts} failed. It is tried again."


def _delivered(delivery: Row[Any], _provider: Row[Any], _now_ms: int) -> Fate:
    return Fate("The receiver took it." if delivery.attempts < 2 else f"The receiver took attempt {delivery.attempts}.")


def _failed(delivery: Row[Any], _provider: Row[Any], _now_ms: int) -> Fate:
    tries = "without an attempt" if not delivery.attempts else f"after attempt {delivery.attempts}"
    return Fate(f"Given up {tries}.", reason_of(delivery.status, delivery.error))


def _held(delivery: Row[Any], provider: Row[Any], _now_ms: int) -> Fate:
    until_ms = delivery.since_ms + HELD_MS
    if provider.state == ProviderState.PAUSED:
        return Fate(
            "The provider is paused. Once it is resumed, this is delivered.", until_ms=until_ms, can_hurry=False
        )
    if provider.state == ProviderState.DISABLED:
        why = f": {provider.state_reason}" if provider.state_reason else ""
        return Fate(
            f"The provider is disabled{why}. Once it is resumed, this is delivered.", until_ms=until_ms, can_hurry=False
        )
    return Fate("The provider is active again, and this is about to be delivered.", can_hurry=False)


def _cancelled(_delivery: Row[Any], _provider: Row[Any], _now_ms: int) -> Fate:
    return Fate("The provider was deleted before this was delivered.", can_hurry=False)
