"""Last use and size of each cached response, for evicting the least recently used."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; the last use of an existing response is its creation."""
    op.add_column("answers", sa.Column("used", sa.Double, nullable=False, server_default="0"))
    op.add_column("answers", sa.Column("size", sa.Integer, nullable=False, server_default="0"))
    op.execute("UPDATE answers SET used = created, size = length(body)")
    op.create_index("ix_answers_use", "answers", ["used", "size", "run"])
