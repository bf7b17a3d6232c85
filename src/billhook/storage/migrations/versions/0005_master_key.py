"""A master key that can be rotated: which one comes next, and what must outlive the one it was derived from."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
# No `oldest_code`: older code would derive from a new master key what is kept here, and refuse every client.


def upgrade() -> None:
    op.add_column("installation", sa.Column("next_fingerprint", sa.Text))
    op.create_table(
        "kept_secrets",
        sa.Column("purpose", sa.Text, primary_key=True),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
    )
