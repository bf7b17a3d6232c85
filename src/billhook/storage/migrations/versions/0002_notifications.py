"""Notification groups and providers, notifications, deliveries and their attempts."""

import sqlalchemy as sa
from alembic import op

from billhook.storage.types import Moment

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _groups()
    _providers()
    _notifications()
    _deliveries()
    _attempts()
    _recoveries()


def _groups() -> None:
    op.create_table(
        "groups",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("deleted_at", Moment),
    )
    alive = sa.text("deleted_at IS NULL")
    op.create_index(
        "uq_groups_organization_id_name",
        "groups",
        ["organization_id", "name"],
        unique=True,
        sqlite_where=alive,
        postgresql_where=alive,
    )


def _providers() -> None:
    op.create_table(
        "providers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False),
        sa.Column("group_id", sa.Text, sa.ForeignKey("groups.id"), nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("config", sa.LargeBinary, nullable=False),
        sa.Column("signing_secrets", sa.LargeBinary, nullable=False),
        sa.Column("rate_limit", sa.Integer),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("state_reason", sa.Text),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("changed_at", Moment, nullable=False),
        sa.Column("deleted_at", Moment),
        *(sa.Column(name, sa.BigInteger, nullable=False, server_default="0") for name in HEALTH_NUMBERS),
        *(sa.Column(name, sa.BigInteger) for name in HEALTH_MOMENTS),
    )
    op.create_index("ix_providers_group_id", "providers", ["group_id"])


HEALTH_NUMBERS = ("failures", "failed_attempts", "openings", "open_until_ms", "waits_until_ms", "next_slot_us")
HEALTH_MOMENTS = ("failing_since_ms", "last_success_ms", "last_failure_ms")


def _notifications() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, nullable=False),
        sa.Column("group_id", sa.Text, nullable=False),
        sa.Column("sender", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_notifications_organization_id_id", "notifications", ["organization_id", "id"])
    op.create_index("ix_notifications_group_id_id", "notifications", ["group_id", "id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("sender", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("notification_id", sa.Text, nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_idempotency_keys_expires_ms", "idempotency_keys", ["expires_ms"])


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, nullable=False),
        sa.Column("group_id", sa.Text, nullable=False),
        sa.Column("provider_id", sa.Text, nullable=False),
        sa.Column("notification_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("charged", sa.Integer, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("finished_ms", sa.BigInteger),
        sa.Column("lease", sa.Text),
        sa.Column("lease_until_ms", sa.BigInteger),
        sa.Column("status", sa.Integer),
        sa.Column("error", sa.Text),
    )
    for owner in ("organization_id", "group_id", "provider_id"):
        op.create_index(f"ix_deliveries_{owner}_state_id", "deliveries", [owner, "state", "id"])
    op.create_index("ix_deliveries_notification_id", "deliveries", ["notification_id"])
    ready = sa.text("state = 'pending' AND lease IS NULL")
    op.create_index(
        "ix_deliveries_ready", "deliveries", ["provider_id", "due_ms"], sqlite_where=ready, postgresql_where=ready
    )
    held = sa.text("state = 'held'")
    op.create_index(
        "ix_deliveries_held", "deliveries", ["provider_id", "since_ms"], sqlite_where=held, postgresql_where=held
    )
    leased = sa.text("lease IS NOT NULL")
    op.create_index(
        "ix_deliveries_leased",
        "deliveries",
        ["organization_id", "provider_id"],
        sqlite_where=leased,
        postgresql_where=leased,
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("delivery_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("error", sa.Text),
        sa.Column("next_ms", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )


def _recoveries() -> None:
    op.create_table(
        "recoveries",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, nullable=False),
        sa.Column("provider_id", sa.Text, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("cursor", sa.Text, nullable=False),
        sa.Column("recovered", sa.BigInteger, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("finished_ms", sa.BigInteger),
    )
    running = sa.text("state = 'running'")
    op.create_index("ix_recoveries_running", "recoveries", ["id"], sqlite_where=running, postgresql_where=running)
    op.create_index("ix_recoveries_provider_id_id", "recoveries", ["provider_id", "id"])
