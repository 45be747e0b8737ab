"""Figures of runs for lists of them."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_ROWS_AT_ONCE = 100


def upgrade() -> None:
    """Add columns and fill them from the stored summaries."""
    for name, kind in (("attempts", sa.Integer), ("pass_rate", sa.Double), ("composite", sa.Double)):
        op.add_column("runs", sa.Column(name, kind))
    op.create_index("ix_runs_pass_rate", "runs", ["pass_rate", "number"])
    op.create_index("ix_runs_composite", "runs", ["composite", "number"])
    op.create_index("ix_runs_suite_name", "runs", ["suite_name", "number"])
    _fill_figures()


def _fill_figures() -> None:
    connection = op.get_bind()
    runs = sa.table(
        "runs",
        sa.column("number", sa.BigInteger),
        sa.column("summary", sa.Text),
        sa.column("attempts", sa.Integer),
        sa.column("pass_rate", sa.Double),
        sa.column("composite", sa.Double),
    )
    after = -1
    while True:
        page = (
            sa.select(runs.c.number, runs.c.summary)
            .where(runs.c.number > after)
            .order_by(runs.c.number)
            .limit(_ROWS_AT_ONCE)
        )
        rows = connection.execute(page).all()
        if not rows:
            return
        for number, summary in rows:
            if summary is not None:
                figures = _figures(json.loads(summary))
                connection.execute(sa.update(runs).where(runs.c.number == number).values(figures))
        after = rows[-1].number


def _figures(summary: dict[str, Any]) -> dict[str, Any]:
    return {
        "attempts": summary.get("attempts"),
        "pass_rate": (summary.get("pass_rate") or {}).get("value"),
        "composite": (summary.get("composite") or {}).get("mean"),
    }
