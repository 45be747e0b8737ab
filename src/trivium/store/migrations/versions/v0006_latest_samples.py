"""An index for the latest samples of a monitor, of which there may be millions."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the index."""
    op.create_index("ix_live_samples_latest", "live_samples", ["monitor", "number"])
