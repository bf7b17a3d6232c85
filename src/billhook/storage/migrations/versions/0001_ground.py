"""Organizations, users, clients and their secrets, signing keys, the audit trail and the change feed."""

import sqlalchemy as sa
from alembic import op

from billhook.storage.types import Moment

revision = "0001"
down_revision = None


def upgrade() -> None:
    _ground()
    _accounts()
    _clients()
    _token_requests()
    _tokens()
    op.execute("INSERT INTO feed (id, version) VALUES (1, 0)")


def _ground() -> None:
    op.create_table(
        "feed",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("master_key_fingerprint", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )


def _accounts() -> None:
    op.create_table(
        "organizations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False),
        sa.Column("email", sa.Text, nullable=False, unique=True),
        sa.Column("password_hash", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("at", Moment, nullable=False),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id")),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("ix_audit_organization_id_id", "audit", ["organization_id", "id"])
    op.create_index("ix_audit_subject_id", "audit", ["subject", "id"])


def _clients() -> None:
    op.create_table(
        "clients",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("lifespan_seconds", sa.Integer, nullable=False),
        sa.Column("networks", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("not_before", sa.BigInteger, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("revoked_at", Moment),
        sa.Column("last_used_at", Moment),
        sa.Column("last_used_address", sa.Text),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_clients_organization_id_id", "clients", ["organization_id", "id"])
    op.create_index("ix_clients_version", "clients", ["version"])
    op.create_table(
        "client_secrets",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("client_id", sa.Text, sa.ForeignKey("clients.id"), nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("hint", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("ends_at", Moment),
        sa.Column("last_used_at", Moment),
        sa.Column("last_used_address", sa.Text),
    )
    op.create_index("ix_client_secrets_client_id", "client_secrets", ["client_id"])
    op.create_index("ix_client_secrets_ends_at", "client_secrets", ["ends_at"])


def _token_requests() -> None:
    op.create_table(
        "token_requests",
        sa.Column("client_id", sa.Text, sa.ForeignKey("clients.id"), primary_key=True),
        sa.Column("minute", Moment, primary_key=True),
        sa.Column("outcome", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("last_at", Moment, nullable=False),
    )
    op.create_index("ix_token_requests_minute", "token_requests", ["minute"])


def _tokens() -> None:
    op.create_table(
        "signing_keys",
        sa.Column("kid", sa.Text, primary_key=True),
        sa.Column("private_key", sa.LargeBinary, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("active_from", Moment, nullable=False),
        sa.Column("dropped_at", Moment),
    )
    op.create_table(
        "revoked_tokens",
        sa.Column("jti", sa.Text, primary_key=True),
        sa.Column("expires_at", Moment, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_revoked_tokens_expires_at", "revoked_tokens", ["expires_at"])
    op.create_index("ix_revoked_tokens_version", "revoked_tokens", ["version"])
