"""Tables for cached responses of judges, their cost, and the most that they may have cost."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_counts = ("requests", "answered", "from_cache", "input_tokens", "output_tokens", "unpriced", "unknown")


def upgrade() -> None:
    """Create answers, spending and advances."""
    op.create_table(
        "answers",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("run", _number, primary_key=True, autoincrement=False, index=True),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "spending",
        sa.Column("run", _number, primary_key=True, autoincrement=False),
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("about", sa.Text, primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _counts),
        sa.Column("unknown_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_usd", sa.Double, nullable=False),
        sa.Column("unknown_usd", sa.Double, nullable=False),
    )
    op.create_table(
        "advances",
        sa.Column("run", _number, primary_key=True, autoincrement=False),
        sa.Column("usd", sa.Double, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
    )
