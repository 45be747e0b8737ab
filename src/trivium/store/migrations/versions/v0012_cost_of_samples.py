"""What each sampled interaction cost; of those that were scored before, that is unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column."""
    op.add_column("live_samples", sa.Column("cost_usd", sa.Double))
