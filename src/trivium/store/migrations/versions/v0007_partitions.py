"""A table of the partitions of runs: Parquet files at which rows of attempts and evaluations point."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "partitions",
        sa.Column("run", _number, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(32), nullable=False),
    )
