"""How attempts went, hour by hour: for each provider how many were delivered or failed, and how long they took.

Durations are kept as counts in buckets that widen geometrically, so that any hours can be added up, and percentiles
are still right to within a bucket.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text, select
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from billhook.storage.database import Transaction
from billhook.storage.rows import pack, rows
from billhook.storage.types import metadata

HOUR_MS = 3_600_000
SHORTEST_MS = 5.0  # the end of the first bucket: what is faster needs no telling apart
LAST = 24  # the bucket that ends at 20.48 s, past the longest attempt (15 s); whatever is longer is in it as well
SLOW = 0.95

UPPERS = [SHORTEST_MS * 2 ** (bucket / 2) for bucket in range(LAST + 1)]

attempt_counts = Table(
    "attempt_counts",
    metadata,
    Column("provider_id", Text, primary_key=True),
    Column("hour_ms", BigInteger, primary_key=True),
    Column("is_ok", Boolean, primary_key=True),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    Index("ix_attempt_counts_hour_ms", "hour_ms"),
)

KEY = ("provider_id", "hour_ms", "is_ok", "bucket")
NAMES = (*KEY, "count")

Key = tuple[str, int, bool, int]  # what attempts are counted by; a plain tuple, since one is made for each


@dataclass(frozen=True, slots=True)
class Span:
    """How the attempts within an hour went, or within several."""

    at_ms: int  # when it begins
    ok: int = 0
    failed: int = 0
    buckets: Mapping[int, int] = field(default_factory=dict)  # how many took how long, failed ones too

    @property
    def p95_ms(self) -> float | None:
        return percentile(self.buckets, SLOW)


def bucket_of(milliseconds: float) -> int:
    return bisect_left(UPPERS, milliseconds, hi=LAST)


def upper_ms(bucket: int) -> float:
    """The longest duration that is in it; for the last one, the longest that can be told."""
    return UPPERS[bucket]


def lower_ms(bucket: int) -> float:
    return UPPERS[bucket - 1] if bucket else 0.0


def percentile(buckets: Mapping[int, int], share: float) -> float | None:
    """The duration that this share of attempts did not exceed, as if each bucket were evenly filled."""
    left = share * sum(buckets.values())
    for bucket, count in sorted(buckets.items()):
        if count and left <= count:
            return lower_ms(bucket) + (upper_ms(bucket) - lower_ms(bucket)) * left / count
        left -= count
    return None


def key_of(provider_id: str, *, at_ms: int, is_ok: bool, milliseconds: float) -> Key:
    return provider_id, at_ms // HOUR_MS * HOUR_MS, is_ok, bucket_of(milliseconds)


async def add(tx: Transaction, keys: Iterable[Key]) -> None:
    """Count one more for each. Who counts for the same provider waits for the commit: do it last."""
    counted = [dict(zip(NAMES, (*key, count), strict=True)) for key, count in Counter(keys).items()]
    if counted:
        await tx.execute(_merge(tx.dialect.name), {"counted": pack(counted)})


@cache
def _merge(dialect: str) -> Any:
    counted = rows(dialect, "counted", **{name: attempt_counts.c[name].type for name in NAMES})
    insert = sqlite_insert if dialect == "sqlite" else postgres_insert
    # In the order of the key, so that two workers with the same rows take their locks in one order. Without any order,
    # SQLite would also take the ON of the conflict for that of a join.
    ordered = select(*counted.c).order_by(*(counted.c[name] for name in KEY))
    fresh = insert(attempt_counts).from_select(list(NAMES), ordered)
    merged = {"count": attempt_counts.c["count"] + fresh.excluded["count"]}
    return fresh.on_conflict_do_update(index_elements=KEY, set_=merged)


async def hours(tx: Transaction, provider_ids: Sequence[str], *, since_ms: int) -> dict[str, list[Span]]:
    """Of each provider the hours that began then or later and had attempts, the oldest first."""
    counted = attempt_counts.c
    query = (
        select(counted.provider_id, counted.hour_ms, counted.is_ok, counted.bucket, counted["count"].label("attempts"))
        .where(counted.provider_id.in_(provider_ids), counted.hour_ms >= since_ms)
        .order_by(counted.provider_id, counted.hour_ms)
    )
    spans: dict[str, list[Span]] = {provider_id: [] for provider_id in provider_ids}
    for (provider_id, hour_ms), its in groupby(await tx.execute(query), attrgetter("provider_id", "hour_ms")):
        spans[provider_id].append(_span(hour_ms, its))
    return spans


def _span(at_ms: int, its: Iterable[Any]) -> Span:
    tried: Counter[bool] = Counter()
    buckets: Counter[int] = Counter()
    for row in its:
        tried[row.is_ok] += row.attempts
        buckets[row.bucket] += row.attempts
    return Span(at_ms, tried[True], tried[False], buckets)
