"""Who asked for tokens, when and from where: tallied in memory, written every two seconds, and at a clean stop.

Nothing of this is on the way of a token request. A database that is away delays the tallies and does not lose them.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Table, Text, bindparam, delete, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from billhook.auth.store import client_secrets, clients
from billhook.storage.database import Database, Transaction
from billhook.storage.types import Moment, metadata

MOST_TALLIES = 20_000  # distinct (client, minute, outcome, address); beyond it the address is left out
NONE = (0, 0.0)
ELSEWHERE = "other"  # the address of tallies beyond that
KEPT = timedelta(days=30)

token_requests = Table(
    "token_requests",
    metadata,
    Column("client_id", Text, ForeignKey("clients.id"), primary_key=True),
    Column("minute", Moment, primary_key=True, index=True),
    Column("outcome", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("last_at", Moment, nullable=False),
)

Tally = tuple[str, int, str, str]  # client id, minute (Unix seconds), outcome, address
Count = tuple[int, float]  # how many, and the moment of the last
Use = tuple[float, str, str]  # moment, address, client id


@dataclass(frozen=True)
class TokenRequests:
    """Those of one minute that came from one address and ended alike."""

    minute: datetime
    outcome: str  # "issued", or why it was refused: see `credentials.Refused`
    address: str
    count: int
    last_at: datetime


@dataclass
class Activity:
    counts: dict[Tally, Count] = field(default_factory=dict)
    used: dict[str, Use] = field(default_factory=dict)  # by secret id

    def issued(self, client_id: str, secret_id: str, *, address: str, now: float) -> None:
        self.used[secret_id] = (now, address, client_id)
        self._count(client_id, "issued", address, now)

    def refused(self, client_id: str, reason: str, *, address: str, now: float) -> None:
        """`client_id` must be one that exists: made-up ones would fill the table."""
        self._count(client_id, reason, address, now)

    @property
    def pending(self) -> int:
        return len(self.counts)

    async def flush(self, db: Database) -> None:
        """Write what was tallied. On failure it is all kept, and joined by what came in meanwhile."""
        counts, used = self.counts, self.used
        self.counts, self.used = {}, {}
        try:
            if counts:
                async with db.transaction() as tx:
                    await _write(tx, counts, used, is_sqlite=db.is_sqlite)
        except BaseException:
            self._take_back(counts, used)
            raise

    def _count(self, client_id: str, outcome: str, address: str, now: float) -> None:
        tally = (client_id, int(now) // 60 * 60, outcome, address)
        if tally not in self.counts and len(self.counts) >= MOST_TALLIES:
            tally = (client_id, int(now) // 3600 * 3600, outcome, ELSEWHERE)
        self.counts[tally] = (self.counts.get(tally, NONE)[0] + 1, now)

    def _take_back(self, counts: dict[Tally, Count], used: dict[str, Use]) -> None:
        for tally, (count, last) in self.counts.items():
            counts[tally] = (counts.get(tally, NONE)[0] + count, last)
        self.counts = counts
        self.used = used | self.used


async def _write(tx: Transaction, counts: dict[Tally, Count], used: dict[str, Use], *, is_sqlite: bool) -> None:
    insert = sqlite_insert if is_sqlite else postgres_insert
    fresh = insert(token_requests)
    merged = fresh.on_conflict_do_update(
        index_elements=["client_id", "minute", "outcome", "address"],
        set_={"count": token_requests.c.count + fresh.excluded.count, "last_at": fresh.excluded.last_at},
    )
    # sorted, so that two processes writing the same rows take their locks in one order
    await tx.execute(merged, [_row(tally, count) for tally, count in sorted(counts.items())])
    if used:
        await _mark_used(tx, used)


def _row(tally: Tally, count: Count) -> dict[str, Any]:
    client_id, minute, outcome, address = tally
    row = {"client_id": client_id, "minute": _moment(minute), "outcome": outcome, "address": address}
    return row | {"count": count[0], "last_at": _moment(count[1])}


async def _mark_used(tx: Transaction, used: dict[str, Use]) -> None:
    """On the secret and on its client. A process that writes late does not overwrite a later use."""
    secrets = [_use(secret_id, at, address) for secret_id, (at, address, _) in sorted(used.items())]
    latest = {client_id: (at, address) for at, address, client_id in sorted(used.values())}
    owners = [_use(client_id, at, address) for client_id, (at, address) in sorted(latest.items())]
    for table, uses in ((clients, owners), (client_secrets, secrets)):  # the client first, as whoever changes one does
        is_later = or_(table.c.last_used_at.is_(None), table.c.last_used_at < bindparam("at"))
        marked = update(table).where(table.c.id == bindparam("used_id"), is_later)
        await tx.execute(marked.values(last_used_at=bindparam("at"), last_used_address=bindparam("address")), uses)


def _use(used_id: str, at: float, address: str) -> dict[str, Any]:
    return {"used_id": used_id, "at": _moment(at), "address": address}


def _moment(unix: float) -> datetime:
    return datetime.fromtimestamp(unix, UTC)


async def recent_requests(tx: Transaction, client_id: str, *, limit: int) -> list[TokenRequests]:
    """The latest first."""
    table = token_requests.c
    query = select(table.minute, table.outcome, table.address, table.count, table.last_at)
    latest = query.where(table.client_id == client_id).order_by(table.minute.desc(), table.last_at.desc()).limit(limit)
    return [TokenRequests(*row) for row in await tx.execute(latest)]


async def purge_token_requests(tx: Transaction, *, now: datetime, limit: int) -> int:
    """Forget tallies older than 30 days. At most about `limit` rows at a time."""
    oldest = select(token_requests.c.minute).order_by(token_requests.c.minute).limit(limit).subquery()
    last = select(oldest.c.minute).order_by(oldest.c.minute.desc()).limit(1).scalar_subquery()
    gone = delete(token_requests).where(token_requests.c.minute <= last, token_requests.c.minute < now - KEPT)
    return (await tx.execute(gone)).rowcount
