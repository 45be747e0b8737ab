"""A table of the answers of runs against the run before, each kept when it was first computed."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "answers_before",
        sa.Column("run", _number, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("touched", sa.Float, nullable=False),
        sa.Column("base", sa.String(64), nullable=False),
        sa.Column("base_touched", sa.Float, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
