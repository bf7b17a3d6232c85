"""What attempts came to: written once, by whoever holds the lease, together with the health of the provider."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billhook.accounts.audit import read_trail
from billhook.accounts.installation import Installation
from billhook.delivery import health, queue
from billhook.delivery.counts import attempt_counts
from billhook.delivery.fairness import Limits
from billhook.delivery.health import Window
from billhook.delivery.outcomes import FAILED_REASON, GONE_REASON, Memories, Outcome, readable, record
from billhook.delivery.queue import Leased
from billhook.delivery.retry import Decision
from billhook.delivery.store import State, attempts
from billhook.groups.model import ProviderState
from billhook.groups.store import NOTHING
from billhook.outbound.request import Asked, Exchange, Timings
from billhook.storage.ids import new_id
from tests.delivery.support import (
    HISTORY,
    Team,
    claim,
    delivery_of,
    fill,
    make_team,
    now_of,
    provider_of,
    rows_of,
    rows_read,
    send,
    set_deliveries,
    set_provider,
    statements_of,
)
from tests.groups.setting import NOW
from tests.support import on_postgres

TIMINGS = Timings(dns=1.23, connect=2.0, tls=None, first_byte=9.88, total=12.35)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MINUTE_MS, HOUR_MS = 60_000, 3_600_000

DELIVERED = Decision("delivered")
AGAIN = Decision("pending", MINUTE)
FAILED = Decision("failed")
GONE = Decision("failed", disables=True)
POLITE = Decision("pending", MINUTE, is_charged=False, provider_wait=HOUR)


def answer(status: int | None = 200, error: str | None = None, body: bytes = b"") -> Exchange:
    headers = (("server", "nginx"), ("retry-after", "5"))
    return Exchange(status, error, "203.0.113.7", TIMINGS, headers, body, truncated=False)


def outcome_of(leased: Leased, decision: Decision, exchange: Exchange | None = None, *, after_ms: int = 10) -> Outcome:
    given = exchange or answer(200 if decision is DELIVERED else 500)
    return Outcome(leased, given, decision, at_ms=leased.claimed_ms + 1, now_ms=leased.claimed_ms + after_ms)


async def tell(installation: Installation, outcomes: Sequence[Outcome], memories: Memories | None = None) -> set[str]:
    async with installation.db.transaction() as tx:
        return await record(tx, list(outcomes), {} if memories is None else memories)


async def leased_of(team: Team, count: int = 1) -> list[Leased]:
    await send(team, count)
    leased = (await claim(team.installation)).leased
    assert len(leased) == count
    return leased


async def tell_all(team: Team, decisions: Sequence[Decision], memories: Memories | None = None) -> None:
    """Record these one after the other, of deliveries that were claimed together."""
    memories = {} if memories is None else memories
    for leased, decision in zip(await leased_of(team, len(decisions)), decisions, strict=True):
        await tell(team.installation, [outcome_of(leased, decision)], memories)


async def test_a_delivered_one_is_finished(installation: Installation) -> None:
    (leased,) = await leased_of(await make_team(installation))
    assert await tell(installation, [outcome_of(leased, DELIVERED)]) == {leased.id}
    row = await delivery_of(installation.db, leased.id)
    assert (row.state, row.attempts, row.charged, row.status, row.error) == (State.DELIVERED, 1, 1, 200, None)
    assert (row.lease, row.lease_until_ms) == (None, None)
    assert leased.claimed_ms <= row.finished_ms <= await now_of(installation.db)


async def test_one_that_is_tried_again_is_due_after_its_wait(installation: Installation) -> None:
    (leased,) = await leased_of(await make_team(installation))
    before = await now_of(installation.db)
    await tell(installation, [outcome_of(leased, AGAIN, answer(503))])
    row = await delivery_of(installation.db, leased.id)
    assert (row.state, row.attempts, row.charged, row.status, row.error) == (State.PENDING, 1, 1, 503, None)
    assert before + MINUTE_MS <= row.due_ms <= await now_of(installation.db) + MINUTE_MS
    assert (row.lease, row.lease_until_ms, row.finished_ms) == (None, None, None)


async def test_a_failed_one_is_finished_with_its_error(installation: Installation) -> None:
    (leased,) = await leased_of(await make_team(installation))
    await tell(installation, [outcome_of(leased, FAILED, answer(None, "timeout"))])
    row = await delivery_of(installation.db, leased.id)
    assert (row.state, row.status, row.error) == (State.FAILED, None, "timeout")
    assert row.finished_ms is not None


async def test_an_attempt_that_costs_nothing_is_counted_and_not_charged(installation: Installation) -> None:
    (leased,) = await leased_of(await make_team(installation))
    await tell(installation, [outcome_of(leased, POLITE, answer(429))])
    row = await delivery_of(installation.db, leased.id)
    assert (row.state, row.attempts, row.charged) == (State.PENDING, 1, 0)


async def test_every_attempt_is_kept_as_it_was(installation: Installation) -> None:
    (leased,) = await leased_of(await make_team(installation))
    await tell(installation, [outcome_of(leased, AGAIN, answer(503, body=b"busy"))])
    (row,) = await rows_of(installation.db, attempts)
    assert (row.delivery_id, row.number, row.status, row.error, row.body) == (leased.id, 1, 503, None, "busy")
    assert (row.at_ms, row.next_ms) == (leased.claimed_ms + 1, leased.claimed_ms + 10 + MINUTE_MS)
    assert json.loads(row.detail) == {
        "address": "203.0.113.7",
        "timings": {"dns": 1.23, "connect": 2.0, "tls": None, "first_byte": 9.88, "total": 12.35},
        "headers": [["server", "nginx"], ["retry-after", "5"]],
        "truncated": False,
        "request": None,
    }


async def test_what_was_asked_is_kept_with_it(installation: Installation) -> None:
    (leased,) = await leased_of(await make_team(installation))
    asked = Asked("POST", "https://receiver.example/hook?••••", (("webhook-id", leased.id), ("Authorization", "••••")))
    await tell(installation, [outcome_of(leased, DELIVERED, answer()._replace(asked=asked))])
    (row,) = await rows_of(installation.db, attempts)
    assert json.loads(row.detail)["request"] == {
        "method": "POST",
        "url": "https://receiver.example/hook?••••",
        "headers": [["webhook-id", leased.id], ["Authorization", "••••"]],
    }


async def test_attempts_are_numbered_and_the_last_has_no_next(installation: Installation) -> None:
    (leased,) = await leased_of(await make_team(installation))
    await tell(installation, [outcome_of(leased, AGAIN)])
    await set_deliveries(installation.db, leased.id, due_ms=1)
    (second,) = (await claim(installation)).leased
    await tell(installation, [outcome_of(second, DELIVERED)])
    rows = await rows_of(installation.db, attempts)
    assert [(row.number, row.status, row.next_ms is None) for row in rows] == [(1, 500, False), (2, 200, True)]


async def test_a_lost_lease_is_not_recorded(installation: Installation) -> None:
    team = await make_team(installation)
    (leased,) = await leased_of(team)
    before = await delivery_of(installation.db, leased.id), await provider_of(team)
    late = leased._replace(lease=new_id("lse"))
    assert await tell(installation, [outcome_of(late, FAILED)]) == set()
    assert (await delivery_of(installation.db, leased.id), await provider_of(team)) == before
    assert await rows_of(installation.db, attempts) == await rows_of(installation.db, attempt_counts) == []


async def test_whoever_comes_after_a_sweep_is_refused_and_the_new_holder_is_not(installation: Installation) -> None:
    (late,) = await leased_of(await make_team(installation))
    await set_deliveries(installation.db, late.id, lease_until_ms=1)
    async with installation.db.transaction() as tx:
        assert await queue.sweep(tx) == 1
    assert await tell(installation, [outcome_of(late, FAILED)]) == set()
    (holder,) = (await claim(installation)).leased
    assert await tell(installation, [outcome_of(late, FAILED)]) == set()
    assert await tell(installation, [outcome_of(holder, DELIVERED)]) == {holder.id}
    assert await tell(installation, [outcome_of(holder, FAILED)]) == set()
    assert (await delivery_of(installation.db, late.id)).state == State.DELIVERED
    assert len(await rows_of(installation.db, attempts)) == 1


async def test_a_lost_lease_among_others_stops_only_itself(installation: Installation) -> None:
    leased = await leased_of(await make_team(installation), 3)
    lost = leased[1]._replace(lease=new_id("lse"))
    outcomes = [outcome_of(each, DELIVERED) for each in (leased[0], lost, leased[2])]
    assert await tell(installation, outcomes) == {leased[0].id, leased[2].id}
    assert {row.delivery_id for row in await rows_of(installation.db, attempts)} == {leased[0].id, leased[2].id}


BODIES = [
    b"",
    b"a\0b",
    b"\xff\xfe broken \xc3",
    b"\xed\xa0\x80 surrogate",
    '"quotes" \\u0000 \\ {} \U0001f4a5 \u2028'.encode(),
    bytes(range(256)) * 64,
]


@pytest.mark.parametrize("body", BODIES)
async def test_every_body_can_be_stored(installation: Installation, body: bytes) -> None:
    (leased,) = await leased_of(await make_team(installation))
    await tell(installation, [outcome_of(leased, AGAIN, answer(500, body=body))])
    (row,) = await rows_of(installation.db, attempts)
    assert row.body == readable(body) == body.decode("utf-8", "replace").replace("\0", "\ufffd")


async def test_failures_in_a_row_open_the_breaker(installation: Installation) -> None:
    team = await make_team(installation)
    await tell_all(team, [AGAIN] * 4)
    row = await provider_of(team)
    assert (row.failures, row.failed_attempts, row.openings, row.open_until_ms) == (4, 4, 0, 0)
    await send(team)
    (leased,) = (await claim(installation)).leased
    await tell(installation, [outcome_of(leased, AGAIN)])
    row = await provider_of(team)
    assert (row.failures, row.openings) == (5, 1)
    assert row.open_until_ms == leased.claimed_ms + 10 + 30_000
    assert row.state == ProviderState.ACTIVE


async def test_failures_that_come_together_count_each(installation: Installation) -> None:
    team = await make_team(installation)
    await tell(installation, [outcome_of(each, AGAIN) for each in await leased_of(team, 7)])
    row = await provider_of(team)
    assert (row.failures, row.openings) == (7, 1)


async def test_a_success_closes_the_breaker(installation: Installation) -> None:
    team = await make_team(installation)
    await set_provider(team, team.provider, failures=9, failed_attempts=9, openings=3, failing_since_ms=1)
    (leased,) = await leased_of(team)
    await tell(installation, [outcome_of(leased, DELIVERED)])
    row = await provider_of(team)
    assert (row.failures, row.failed_attempts, row.openings, row.open_until_ms) == (0, 0, 0, 0)
    assert (row.failing_since_ms, row.last_success_ms) == (None, leased.claimed_ms + 10)


async def test_the_health_of_one_is_not_another_s(installation: Installation) -> None:
    team = await make_team(installation, 2)
    await send(team)
    for leased in (await claim(installation)).leased:
        await tell(installation, [outcome_of(leased, AGAIN if leased.provider == team.provider else DELIVERED)])
    assert [(await provider_of(team, each)).failures for each in team.providers] == [1, 0]


async def test_a_success_ends_a_row_of_failures_although_all_were_claimed_when_it_was_well(
    installation: Installation,
) -> None:
    """Nine in the air, every second one fails: that is no five in a row."""
    team = await make_team(installation)
    await set_provider(team, team.provider, last_success_ms=await now_of(installation.db))
    await tell_all(team, [AGAIN, DELIVERED] * 4 + [AGAIN])
    row = await provider_of(team)
    assert (row.failures, row.openings) == (1, 0)


async def test_half_of_twenty_within_a_minute_open_it_too(installation: Installation) -> None:
    team, memories = await make_team(installation), Memories()
    await tell_all(team, [DELIVERED, AGAIN] * 5, memories)
    await set_provider(team, team.provider, failures=0, openings=0, open_until_ms=0)
    await tell_all(team, [DELIVERED, DELIVERED, AGAIN, AGAIN, DELIVERED, AGAIN, AGAIN, DELIVERED, DELIVERED], memories)
    assert (await provider_of(team)).openings == 0
    await tell_all(team, [AGAIN], memories)
    assert (await provider_of(team)).openings == 1


async def test_half_of_twenty_is_counted_over_all_workers(installation: Installation) -> None:
    """Four take turns: none of them sees more than five attempts, nor two failures in a row."""
    team, workers = await make_team(installation), [Memories() for _ in range(4)]
    for number, decision in enumerate([AGAIN, DELIVERED] * 9 + [DELIVERED]):
        await tell_all(team, [decision], workers[number % 4])
        assert (await provider_of(team)).openings == 0
    await tell_all(team, [AGAIN], workers[0])
    assert (await provider_of(team)).openings == 1


async def test_what_a_worker_kept_to_itself_is_told_when_it_hears_of_a_failure(installation: Installation) -> None:
    """Else a provider would look worse than it is: thirty went well elsewhere."""
    team, one, other = await make_team(installation), Memories(), Memories()
    await tell_all(team, [DELIVERED] * 10, one)
    await tell_all(team, [DELIVERED] * 10, one)
    assert (await provider_of(team)).recent == NOTHING
    await tell_all(team, [AGAIN], other)
    await tell_all(team, [DELIVERED] * 10, one)
    recent = Window.read((await provider_of(team)).recent)
    assert (sum(tried for tried, _ in recent.seconds.values()), recent.has_failures()) == (31, True)
    assert not one[team.provider.id].untold.seconds


async def test_a_minute_without_failures_is_not_stored_any_more_and_not_forgotten_either(
    installation: Installation,
) -> None:
    team, memories = await make_team(installation), Memories()
    await tell_all(team, [AGAIN, DELIVERED], memories)
    for later_ms in (health.WINDOW_MS - 5000, health.WINDOW_MS + 15_000):
        outcomes = [outcome_of(each, DELIVERED, after_ms=later_ms) for each in await leased_of(team, 2)]
        await tell(installation, outcomes, memories)
    assert (await provider_of(team)).recent == NOTHING
    assert sum(tried for tried, _ in memories[team.provider.id].untold.seconds.values()) == 4


async def test_a_success_that_was_in_the_air_does_not_undo_it_when_half_have_failed(installation: Installation) -> None:
    """Of ten in the air some always go well; a probe shall decide."""
    team, memories = await make_team(installation), Memories()
    await tell_all(team, [AGAIN, DELIVERED] * 4, memories)
    await tell_all(team, [AGAIN, DELIVERED] * 4, memories)
    await tell_all(team, [AGAIN, DELIVERED, AGAIN, AGAIN, DELIVERED], memories)
    row = await provider_of(team)
    assert (row.openings, row.failures, row.failing_since_ms) == (1, 0, None)
    assert row.open_until_ms > await now_of(installation.db)
    await set_provider(team, team.provider, open_until_ms=0)
    await tell_all(team, [DELIVERED], memories)
    assert (await provider_of(team)).openings == 0


async def test_workers_that_record_at_the_same_time_lose_nothing_of_the_minute(installation: Installation) -> None:
    team, workers = await make_team(installation), [Memories() for _ in range(4)]
    decisions = [AGAIN] * 4 + [DELIVERED] * 6
    outcomes = [outcome_of(*each) for each in zip(await leased_of(team, 10), decisions, strict=True)]
    shares = [outcomes[number::4] for number in range(4)]
    await asyncio.gather(*(tell(installation, *each) for each in zip(shares, workers, strict=True)))
    minute = Window.read((await provider_of(team)).recent)
    for memories in workers:
        minute.merge(memories[team.provider.id].untold)
    assert sum(attempts for attempts, _ in minute.seconds.values()) == 10
    assert sum(failures for _, failures in minute.seconds.values()) == 4


async def test_a_provider_that_has_come_back_begins_its_minute_anew(installation: Installation) -> None:
    team, memories = await make_team(installation), Memories()
    await tell_all(team, [AGAIN] * 5, memories)
    assert (await provider_of(team)).recent != NOTHING
    await set_provider(team, team.provider, open_until_ms=0)
    await tell_all(team, [DELIVERED], Memories())
    row = await provider_of(team)
    assert (row.openings, row.recent) == (0, NOTHING)


async def test_a_receiver_that_asks_to_wait_is_waited_for_and_not_ill(installation: Installation) -> None:
    team = await make_team(installation)
    (leased,) = await leased_of(team)
    await tell(installation, [outcome_of(leased, POLITE, answer(429))])
    row = await provider_of(team)
    assert row.waits_until_ms == leased.claimed_ms + 10 + HOUR_MS
    assert (row.failures, row.failed_attempts, row.failing_since_ms) == (0, 0, None)


async def test_asking_to_wait_does_not_count_as_failing_in_the_last_minute_either(installation: Installation) -> None:
    team, memories = await make_team(installation), Memories()
    for _ in range(2):
        await tell_all(team, [POLITE] * 10, memories)
        await set_provider(team, team.provider, waits_until_ms=0)
    await tell_all(team, [AGAIN], memories)
    row = await provider_of(team)
    assert (row.failures, row.openings) == (1, 0)


async def test_a_wait_asked_for_with_a_failure_counts_as_both(installation: Installation) -> None:
    team = await make_team(installation)
    (leased,) = await leased_of(team)
    await tell(installation, [outcome_of(leased, Decision("pending", HOUR, provider_wait=HOUR), answer(503))])
    row = await provider_of(team)
    assert (row.failures, row.waits_until_ms) == (1, leased.claimed_ms + 10 + HOUR_MS)


async def trail_of(team: Team) -> list[tuple[str, str, dict[str, Any]]]:
    async with team.installation.db.reading() as tx:
        entries = await read_trail(tx, subject=team.provider.id)
    return [(each.action, each.actor, each.detail) for each in entries if each.action == "provider.disabled"]


async def test_gone_disables_the_provider_and_says_so(installation: Installation) -> None:
    team = await make_team(installation)
    (leased,) = await leased_of(team)
    await tell(installation, [outcome_of(leased, GONE, answer(410))])
    row = await provider_of(team)
    assert (row.state, row.state_reason) == (ProviderState.DISABLED, GONE_REASON)
    assert await trail_of(team) == [("provider.disabled", "system", {"reason": GONE_REASON})]


async def test_when_a_provider_was_disabled_is_told_by_the_clock_of_the_database(installation: Installation) -> None:
    team = await make_team(installation)
    (leased,) = await leased_of(team)
    outcome = outcome_of(leased, GONE, answer(410))
    await tell(installation, [outcome])
    async with installation.db.reading() as tx:
        (entry,) = (e for e in await read_trail(tx, subject=team.provider.id) if e.action == "provider.disabled")
    assert entry.at == datetime.fromtimestamp(outcome.now_ms / 1000, UTC)


@pytest.mark.parametrize(
    ("hours", "failed_attempts", "state"),
    [(72, 9, ProviderState.DISABLED), (71, 9, ProviderState.ACTIVE), (72, 8, ProviderState.ACTIVE)],
)
async def test_three_days_of_failures_only_disable_it(
    installation: Installation, hours: int, failed_attempts: int, state: ProviderState
) -> None:
    team = await make_team(installation)
    since = await now_of(installation.db) - hours * HOUR_MS
    await set_provider(team, team.provider, failed_attempts=failed_attempts, failing_since_ms=since)
    (leased,) = await leased_of(team)
    await tell(installation, [outcome_of(leased, AGAIN)])
    assert (await provider_of(team)).state == state
    reasons = [detail["reason"] for _, _, detail in await trail_of(team)]
    assert reasons == ([FAILED_REASON] if state is ProviderState.DISABLED else [])


@pytest.mark.parametrize("values", [{"state": ProviderState.PAUSED}, {"deleted_at": NOW}], ids=["paused", "deleted"])
async def test_who_is_paused_or_deleted_meanwhile_is_not_disabled(
    installation: Installation, values: dict[str, Any]
) -> None:
    team = await make_team(installation)
    (leased,) = await leased_of(team)
    await set_provider(team, team.provider, **values)
    await tell(installation, [outcome_of(leased, GONE, answer(410))])
    row = await provider_of(team)
    assert (row.state, row.state_reason) == (values.get("state", ProviderState.ACTIVE), None)
    assert await trail_of(team) == []


async def test_a_provider_that_is_well_and_stays_well_is_not_written(installation: Installation) -> None:
    team = await make_team(installation)
    await set_provider(team, team.provider, last_success_ms=await now_of(installation.db))
    before = await provider_of(team)
    (leased,) = await leased_of(team)
    soon = leased.health.last_success_ms or 0
    outcome = outcome_of(leased, DELIVERED)._replace(now_ms=soon + health.NOTED_EVERY_MS)
    await tell(installation, [outcome])
    assert await provider_of(team) == before


async def test_providers_that_are_well_are_noted_together_and_once(installation: Installation) -> None:
    teams = [await make_team(installation, name=name) for name in ("one", "two")]
    leased = [(await leased_of(team))[0] for team in teams]
    memories: Memories = {}
    first = [outcome_of(each, DELIVERED) for each in leased]
    await tell(installation, first, memories)
    noted = [await provider_of(team) for team in teams]
    assert [row.last_success_ms for row in noted] == [each.now_ms for each in first]
    assert {memory.noted_ms for memory in memories.values()} == {each.now_ms for each in first}
    more = [(await leased_of(team))[0] for team in teams]
    stale = [each._replace(health=before.health) for each, before in zip(more, leased, strict=True)]
    await tell(installation, [outcome_of(each, DELIVERED) for each in stale], memories)
    assert [await provider_of(team) for team in teams] == noted


async def test_the_slot_of_a_rate_limit_is_left_to_the_claim(installation: Installation) -> None:
    team = await make_team(installation)
    (leased,) = await leased_of(team)
    await set_provider(team, team.provider, next_slot_us=12345)
    await tell(installation, [outcome_of(leased, AGAIN)])
    assert (await provider_of(team)).next_slot_us == 12345


@on_postgres
@pytest.mark.parametrize("history", [100, HISTORY])
@pytest.mark.parametrize("is_known", [True, False], ids=["with statistics", "before statistics"])
async def test_what_a_claim_and_its_outcome_read_does_not_grow_with_what_there_is(
    installation: Installation, is_known: bool, history: int
) -> None:
    """Also in the minutes until PostgreSQL has noticed how much that is."""
    team = await make_team(installation)
    await fill(team, history=history, is_known=is_known)
    async with statements_of(installation.db) as statements:
        leased = (await claim(installation, limits=Limits(2, 2, 2))).leased
        await tell(installation, [outcome_of(each, DELIVERED) for each in leased])
    found = [(statement, values) for statement, values in statements if not statement.startswith("INSERT")]
    read = {statement: await rows_read(installation.db, statement, values) for statement, values in found}
    assert {statement: count for statement, count in read.items() if count > 100} == {}
