"""When an answer was last used, and how long it is: so that those which nobody uses can leave."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Tell it of the answers that are there; one that was never used again was used when it came."""
    op.add_column("answers", sa.Column("used", sa.Double, nullable=False, server_default="0"))
    op.add_column("answers", sa.Column("size", sa.Integer, nullable=False, server_default="0"))
    op.execute("UPDATE answers SET used = created, size = length(body)")
    op.create_index("ix_answers_use", "answers", ["used", "size", "run"])
