"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _key(name: str, kind: sa.types.TypeEngine[int]) -> sa.Column[int]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def upgrade() -> None:
    """Create runs, cases, attempts, evaluations and case_scores."""
    op.create_table(
        "runs",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("suite_name", sa.Text, nullable=False),
        sa.Column("suite", sa.String(64), nullable=False, index=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("touched", sa.Float, nullable=False),
        sa.Column("finished", sa.Float),
        sa.Column("owner", sa.Text),
        sa.Column("attempts_from", _number),
        sa.Column("due", sa.Integer),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.Column("summary", sa.Text),
    )
    op.create_table(
        "cases",
        _key_text("suite"),
        _key("position", sa.Integer()),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "attempts",
        _key("run", _number),
        _key("position", sa.Integer()),
        _key("repeat", sa.Integer()),
        sa.Column("case_body", sa.Text),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "evaluations",
        _key("run", _number),
        _key("position", sa.Integer()),
        _key("repeat", sa.Integer()),
        sa.Column("composite", sa.Float),
        sa.Column("passed", sa.Boolean),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "case_scores",
        _key("run", _number),
        _key("position", sa.Integer()),
        sa.Column("body", sa.Text, nullable=False),
    )


def _key_text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(64), primary_key=True)
