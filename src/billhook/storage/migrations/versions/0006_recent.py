"""The last minute of a provider that fails, so that all workers open its breaker together."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
oldest_code = "0005"


def upgrade() -> None:
    op.add_column("providers", sa.Column("recent", sa.Text, nullable=False, server_default="[]"))
