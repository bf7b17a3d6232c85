"""Record what attempts came to: the delivery, the attempt, the provider's health and the counts, in one transaction."""

from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import orjson
from sqlalchemy import BigInteger, Insert, Integer, Text, case, insert, null, select, update

from billhook.accounts.audit import Actor, note
from billhook.delivery import counts, health
from billhook.delivery.health import Memory, Window
from billhook.delivery.queue import Leased
from billhook.delivery.retry import Decision
from billhook.delivery.store import State, attempts, deliveries
from billhook.groups.model import Health, ProviderState
from billhook.groups.store import health_of, providers
from billhook.outbound.request import Asked, Exchange
from billhook.storage.clock import now_ms
from billhook.storage.database import Transaction
from billhook.storage.rows import pack, rows

GONE_REASON = "the receiver answered 410 Gone"
FAILED_REASON = "every attempt failed for 72 hours"

Memories = dict[str, Memory]  # of a worker, by provider


class Outcome(NamedTuple):
    leased: Leased
    exchange: Exchange
    decision: Decision
    at_ms: int  # when the attempt began, on the database's clock
    now_ms: int  # when it ended

    @property
    def ok(self) -> bool:
        return self.decision.state == State.DELIVERED


async def record(tx: Transaction, outcomes: list[Outcome], memories: Memories) -> set[str]:
    """Returns the deliveries that were written; the others' leases were lost, and with them the right to say."""
    written = await tx.execute(_finish(tx.dialect.name), {"outcomes": pack([_row(each) for each in outcomes])})
    ids = {row.id for row in written}
    told = [each for each in outcomes if each.leased.id in ids]
    if told:
        await tx.execute(_log(tx.dialect.name), {"tried": pack([attempt_row(each) for each in told])})
    await _note_health(tx, told, memories)
    await counts.add(tx, map(_count_key, told))
    return ids


def _count_key(outcome: Outcome) -> counts.Key:
    took_ms = outcome.exchange.timings.total
    return counts.key_of(outcome.leased.provider.id, at_ms=outcome.now_ms, is_ok=outcome.ok, milliseconds=took_ms)


def _row(outcome: Outcome) -> dict[str, Any]:
    decision = outcome.decision
    return {
        "id": outcome.leased.id,
        "lease": outcome.leased.lease,
        "state": decision.state,
        "charge": int(decision.is_charged),
        "wait_ms": round(decision.wait.total_seconds() * 1000),
        "status": outcome.exchange.status,
        "error": outcome.exchange.error,
    }


@cache
def _finish(dialect: str) -> Any:
    told = rows(
        dialect,
        "outcomes",
        id=Text(),
        lease=Text(),
        state=Text(),
        charge=Integer(),
        wait_ms=BigInteger(),
        status=Integer(),
        error=Text(),
    )
    return (
        update(deliveries)
        .where(deliveries.c.id == told.c.id, deliveries.c.lease == told.c.lease)
        .values(
            state=told.c.state,
            attempts=deliveries.c.attempts + 1,
            charged=deliveries.c.charged + told.c.charge,
            due_ms=now_ms() + told.c.wait_ms,
            finished_ms=case((told.c.state == State.PENDING, null()), else_=now_ms()),
            lease=null(),
            lease_until_ms=null(),
            status=told.c.status,
            error=told.c.error,
        )
        .returning(deliveries.c.id)
    )


def attempt_row(outcome: Outcome) -> dict[str, Any]:
    exchange, decision = outcome.exchange, outcome.decision
    is_last = decision.state != State.PENDING
    return {
        "delivery_id": outcome.leased.id,
        "number": outcome.leased.attempts + 1,
        "at_ms": outcome.at_ms,
        "status": exchange.status,
        "error": exchange.error,
        "next_ms": None if is_last else outcome.now_ms + round(decision.wait.total_seconds() * 1000),
        "detail": orjson.dumps(detail_of(exchange)).decode(),
        "body": readable(exchange.body),
    }


def detail_of(exchange: Exchange) -> dict[str, Any]:
    taken = exchange.timings
    phases = {"dns": taken.dns, "connect": taken.connect, "tls": taken.tls, "first_byte": taken.first_byte}
    return {
        "address": exchange.address,
        "timings": phases | {"total": taken.total},
        "headers": exchange.headers,
        "truncated": exchange.truncated,
        "request": None if exchange.asked is None else _request_of(exchange.asked),
    }


def _request_of(asked: Asked) -> dict[str, Any]:
    return {"method": asked.method, "url": asked.url, "headers": asked.headers}


def readable(body: bytes) -> str:
    """As text that both engines can store."""
    return body.decode("utf-8", "replace").replace("\0", "\ufffd")


@cache
def _log(dialect: str) -> Insert:
    tried = rows(
        dialect,
        "tried",
        delivery_id=Text(),
        number=Integer(),
        at_ms=BigInteger(),
        status=Integer(),
        error=Text(),
        next_ms=BigInteger(),
        detail=Text(),
        body=Text(),
    )
    return insert(attempts).from_select([column.name for column in tried.c], select(*tried.c))


async def _note_health(tx: Transaction, told: list[Outcome], memories: Memories) -> None:
    """Only what is new is written: a provider that is well and stays well costs nothing."""
    by_provider: dict[str, list[Outcome]] = {}
    for outcome in told:
        by_provider.setdefault(outcome.leased.provider.id, []).append(outcome)
        memory = memories.setdefault(outcome.leased.provider.id, Memory())
        if outcome.decision.is_charged:
            memory.untold.add(outcome.now_ms, ok=outcome.ok)
    noted = [each for each, outcomes in by_provider.items() if _has_news(outcomes, memories[each])]
    if not noted:
        return
    known = await tx.execute(_locked(tx.dialect.name), {"ids": pack([{"id": each} for each in noted])})
    well = []
    for row in known.all():
        outcomes, memory = by_provider[row.id], memories[row.id]
        minute = _shared_minute(row.recent, memory, outcomes[-1].now_ms)
        memory.noted_ms = outcomes[-1].now_ms
        if health.is_well(health_of(row)) and all(each.ok for each in outcomes):
            well.append({"id": row.id, "now_ms": memory.noted_ms, "recent": minute.written()})
        else:
            memory.failed_ms = await _update_health(tx, row, outcomes, minute)
    if well:
        await tx.execute(_still_well(tx.dialect.name), {"well": pack(well)})


def _shared_minute(recent: str, memory: Memory, now: int) -> Window:
    """What all workers have seen in the last minute, as far as it is known: to be stored, and remembered no more.

    While there is no failure in it, it is the other way round, so that successes cost no row.
    """
    minute = Window.read(recent)
    minute.merge(memory.untold)
    minute.forget(now)
    is_stored = minute.has_failures()
    memory.untold = Window() if is_stored else minute
    return minute if is_stored else Window()


@cache
def _locked(dialect: str) -> Any:
    """In one order, so that two workers never wait for each other."""
    ids = rows(dialect, "ids", id=Text())
    names = ("id", "organization_id", "state", "deleted_at", "recent", *Health._fields)
    these = select(*(providers.c[name] for name in names)).join(ids, ids.c.id == providers.c.id)
    return these.order_by(providers.c.id).with_for_update(of=providers)


def _has_news(outcomes: list[Outcome], memory: Memory) -> bool:
    return any(_is_news(each, memory) for each in outcomes)


def _is_news(outcome: Outcome, memory: Memory) -> bool:
    if not outcome.ok or outcome.decision.provider_wait:
        return True
    known = {"noted_ms": memory.noted_ms, "failed_ms": memory.failed_ms}
    return health.is_worth_noting(outcome.leased.health, outcome.now_ms, **known)


@cache
def _still_well(dialect: str) -> Any:
    well = rows(dialect, "well", id=Text(), now_ms=BigInteger(), recent=Text())
    changed = {"last_success_ms": well.c.now_ms, "recent": well.c.recent}
    return update(providers).where(providers.c.id == well.c.id).values(changed)


async def _update_health(tx: Transaction, row: Any, outcomes: list[Outcome], minute: Window) -> int:
    """Returns when it last failed, or 0."""
    state, gone, now = health_of(row), False, outcomes[-1].now_ms
    for outcome in outcomes:
        state, gone = _fold(state, outcome, minute), gone or outcome.decision.disables
    if row.openings and not state.openings:
        minute = Window()  # it has come back: what was before does not count against it
    values: dict[str, Any] = state._asdict() | {"recent": minute.written()}
    values.pop("next_slot_us")  # the claim's affair
    reason = GONE_REASON if gone else FAILED_REASON if health.is_given_up(state, now) else None
    if reason is not None and row.state == ProviderState.ACTIVE and row.deleted_at is None:
        values |= {"state": ProviderState.DISABLED, "state_reason": reason}
        actor = Actor("system", row.organization_id)
        at = datetime.fromtimestamp(now / 1000, UTC)
        await note(tx, actor, "provider.disabled", subject=row.id, now=at, reason=reason)
    await tx.execute(update(providers).where(providers.c.id == row.id).values(**values))
    return state.last_failure_ms or 0


def _fold(state: Health, outcome: Outcome, minute: Window) -> Health:
    mostly_failing = minute.is_mostly_failing()
    if outcome.ok:
        return health.succeeded(state, outcome.now_ms, mostly_failing=mostly_failing)
    wait_ms = round(outcome.decision.provider_wait.total_seconds() * 1000)
    if wait_ms:
        state = health.waiting(state, outcome.now_ms + wait_ms)
    if not outcome.decision.is_charged:  # it asked us to wait: neither well nor ill
        return state
    return health.failed(state, outcome.now_ms, mostly_failing=mostly_failing)
