"""The tables of notifications and deliveries.

Moments are milliseconds of the database's clock. There are no foreign keys: every row names its owners, nothing is
deleted before what it names but by retention, and a check on each insert would be paid on the hottest path.
"""

from enum import StrEnum

from sqlalchemy import BigInteger, Column, ColumnElement, Index, Integer, Table, Text, literal_column, text

from billhook.storage.types import metadata


class State(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    HELD = "held"
    CANCELLED = "cancelled"


# Spelled out in the SQL: an index for some rows only is of no use to a plan that does not know the state.
IS_PENDING: ColumnElement[str] = literal_column("'pending'")
IS_HELD: ColumnElement[str] = literal_column("'held'")

FINISHED = (State.DELIVERED, State.FAILED, State.CANCELLED)

notifications = Table(
    "notifications",
    metadata,
    Column("id", Text, primary_key=True),
    Column("organization_id", Text, nullable=False),
    Column("group_id", Text, nullable=False),
    Column("sender", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index("ix_notifications_organization_id_id", "organization_id", "id"),
    Index("ix_notifications_group_id_id", "group_id", "id"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("sender", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("notification_id", Text, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Index("ix_idempotency_keys_expires_ms", "expires_ms"),
)

READY = text("state = 'pending' AND lease IS NULL")
HELD = text("state = 'held'")
LEASED = text("lease IS NOT NULL")

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("organization_id", Text, nullable=False),
    Column("group_id", Text, nullable=False),
    Column("provider_id", Text, nullable=False),
    Column("notification_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),  # all there were
    Column("charged", Integer, nullable=False),  # those that count against the schedule, since it was last begun
    Column("created_ms", BigInteger, nullable=False),
    Column("since_ms", BigInteger, nullable=False),  # when it was last begun: sent, redelivered, released or held
    Column("due_ms", BigInteger, nullable=False),
    Column("finished_ms", BigInteger),
    Column("lease", Text),
    Column("lease_until_ms", BigInteger),
    Column("status", Integer),  # of the last attempt
    Column("error", Text),
    Index("ix_deliveries_organization_id_state_id", "organization_id", "state", "id"),
    Index("ix_deliveries_group_id_state_id", "group_id", "state", "id"),
    Index("ix_deliveries_provider_id_state_id", "provider_id", "state", "id"),
    Index("ix_deliveries_notification_id", "notification_id"),
    Index("ix_deliveries_held", "provider_id", "since_ms", sqlite_where=HELD, postgresql_where=HELD),
    # Claims read only these two; what is finished is in neither.
    Index("ix_deliveries_ready", "provider_id", "due_ms", sqlite_where=READY, postgresql_where=READY),
    Index("ix_deliveries_leased", "organization_id", "provider_id", sqlite_where=LEASED, postgresql_where=LEASED),
)

attempts = Table(
    "attempts",
    metadata,
    Column("delivery_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("status", Integer),
    Column("error", Text),
    Column("next_ms", BigInteger),
    Column("detail", Text, nullable=False),  # JSON: address, timings, response headers, masked request
    Column("body", Text, nullable=False),  # the first 16 KiB of the response
)

RUNNING = text("state = 'running'")

recoveries = Table(
    "recoveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("organization_id", Text, nullable=False),
    Column("provider_id", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("cursor", Text, nullable=False),
    Column("recovered", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("finished_ms", BigInteger),
    Index("ix_recoveries_running", "id", sqlite_where=RUNNING, postgresql_where=RUNNING),
    Index("ix_recoveries_provider_id_id", "provider_id", "id"),
)
