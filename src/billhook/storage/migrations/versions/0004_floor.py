"""The oldest code that can live with the schema: what lets old and new processes work together during an upgrade."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "schema_floor",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("oldest_code", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO schema_floor (id, oldest_code) VALUES (1, '0004')")
