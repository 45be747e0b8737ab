"""A table of the people to whom each item of a queue of labels was given.

An older store kept only what is in hand and what was answered, so the people of those are taken as asked.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table, with the people who have an item in hand or have answered it."""
    op.create_table(
        "label_grants",
        sa.Column("queue", _number, primary_key=True, autoincrement=False),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("by", sa.String(200), primary_key=True),
        sa.Column("given", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
    )
    op.execute(
        """
        INSERT INTO label_grants (queue, place, "by", given, until)
        SELECT queue, place, "by", MIN(given), MAX(until) FROM (
            SELECT queue, place, "by", at AS given, at AS until FROM labels
            WHERE queue IS NOT NULL AND place IS NOT NULL AND how <> 'adjudicated' AND "by" <> '(nobody)'
            UNION ALL
            SELECT queue, place, "by", until AS given, until FROM label_leases
        ) AS known GROUP BY queue, place, "by"
        """
    )
