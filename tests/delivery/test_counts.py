"""How attempts went by the hour: counted once each, by whoever recorded them, and read back as percentiles."""

import asyncio
import math
from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from billhook.accounts.installation import Installation
from billhook.delivery import counts
from billhook.delivery.counts import HOUR_MS, LAST, Key, Span, attempt_counts, bucket_of, lower_ms, percentile, upper_ms
from billhook.storage.database import Database, open_database
from tests.delivery.floor import provider_at, send, settled, working
from tests.delivery.receivers import in_turn, response
from tests.delivery.support import rows_of
from tests.outbound.receivers import RawReceiver

TEN = 10 * HOUR_MS

durations = st.lists(st.floats(0, 20_000), min_size=1, max_size=200)
shares = st.floats(0, 1)


def test_buckets_grow_by_the_root_of_two_and_reach_past_the_longest_attempt() -> None:
    ends = [upper_ms(bucket) for bucket in range(LAST + 1)]
    assert ends[0] == 5
    assert all(math.isclose(later / earlier, math.sqrt(2)) for earlier, later in zip(ends, ends[1:], strict=False))
    assert ends[-1] > 20_000


@given(st.floats(0, 20_000))
def test_a_duration_lies_within_its_bucket(milliseconds: float) -> None:
    bucket = bucket_of(milliseconds)
    assert (lower_ms(bucket) < milliseconds or milliseconds == 0) and milliseconds <= upper_ms(bucket)


def test_whatever_is_longer_is_in_the_last_bucket() -> None:
    assert [bucket_of(each) for each in (20_480, 20_481, 1e9)] == [LAST] * 3


@given(durations, shares)
def test_a_percentile_lies_in_the_bucket_of_the_attempt_that_has_it(taken: list[float], share: float) -> None:
    found = percentile(Counter(map(bucket_of, taken)), share)
    exact = sorted(taken)[max(math.ceil(share * len(taken)), 1) - 1]
    assert found is not None and lower_ms(bucket_of(exact)) <= found <= upper_ms(bucket_of(exact))


@given(durations, shares, shares)
def test_a_larger_share_takes_no_less_time(taken: list[float], one: float, other: float) -> None:
    buckets = Counter(map(bucket_of, taken))
    less, more = percentile(buckets, min(one, other)), percentile(buckets, max(one, other))
    assert less is not None and more is not None and less <= more


def test_a_percentile_is_found_by_the_share_of_its_bucket() -> None:
    assert percentile({0: 10}, 0.5) == 2.5
    assert percentile({0: 90, 2: 10}, 0.95) == (upper_ms(1) + upper_ms(2)) / 2


def test_of_no_attempts_there_is_no_percentile() -> None:
    assert (percentile({}, 0.95), percentile({3: 0}, 0.95), Span(0).p95_ms) == (None, None, None)


async def add(db: Database, keys: Iterable[Key]) -> None:
    async with db.transaction() as tx:
        await counts.add(tx, keys)


async def hours_of(db: Database, *provider_ids: str, since_ms: int = 0) -> dict[str, list[Span]]:
    async with db.reading() as tx:
        return await counts.hours(tx, provider_ids, since_ms=since_ms)


def key(provider_id: str = "prv_a", at_ms: int = TEN, *, is_ok: bool = True, milliseconds: float = 1) -> Key:
    return counts.key_of(provider_id, at_ms=at_ms, is_ok=is_ok, milliseconds=milliseconds)


async def test_what_comes_together_and_what_comes_later_add_up(db: Database) -> None:
    await add(db, [key(), key(), key(at_ms=TEN + HOUR_MS - 1), key(is_ok=False), key(milliseconds=6)])
    await add(db, [key(is_ok=False, milliseconds=6)])
    (span,) = (await hours_of(db, "prv_a"))["prv_a"]
    assert span == Span(TEN, ok=4, failed=2, buckets={0: 4, 1: 2})
    assert span.p95_ms == percentile({0: 4, 1: 2}, 0.95)


async def test_nothing_is_written_for_nothing(db: Database) -> None:
    await add(db, [])
    assert await rows_of(db, attempt_counts) == []


async def test_hours_come_in_order_by_provider_and_not_from_before(db: Database) -> None:
    early, late = key("prv_a", TEN - HOUR_MS), key("prv_a", TEN + HOUR_MS)
    await add(db, [late, key("prv_b"), early, key("prv_c"), key("prv_a")])
    found = await hours_of(db, "prv_a", "prv_b", "prv_d", since_ms=TEN)
    assert {id: [span.at_ms for span in spans] for id, spans in found.items()} == {
        "prv_a": [TEN, TEN + HOUR_MS],
        "prv_b": [TEN],
        "prv_d": [],
    }


async def test_two_processes_count_the_same_providers_at_once(db: Database, location: str) -> None:
    other = open_database(location)
    keys = [key(f"prv_{number}", milliseconds=upper_ms(bucket)) for number in range(20) for bucket in range(7)]
    try:
        both = [add(one, given) for _ in range(20) for one, given in ((db, keys), (other, keys[::-1]))]
        await asyncio.gather(*both)
    finally:
        await other.close()
    assert {row[-1] for row in await rows_of(db, attempt_counts)} == {40}


async def test_every_attempt_of_a_delivery_is_counted(installation: Installation) -> None:
    async with (
        RawReceiver(in_turn(response(429), response(500), response(204))) as receiver,
        working(installation) as worker,
    ):
        provider = await provider_at(installation, receiver.url())
        await settled(installation.db, await send(worker.hub, provider))
        spans = (await hours_of(installation.db, provider.id))[provider.id]
    assert (sum(span.ok for span in spans), sum(span.failed for span in spans)) == (1, 2)
    assert all(span.p95_ms for span in spans)
