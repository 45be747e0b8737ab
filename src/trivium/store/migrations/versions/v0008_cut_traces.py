"""The number of spans of a trace that were refused because it is larger than allowed."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column."""
    op.add_column("live_traces", sa.Column("cut", sa.Integer, nullable=False, server_default="0"))
