"""Figures of runs and indexes for the pages; tables of people's labels and of the search."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_ROWS_AT_ONCE = 100

_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add columns and fill them from the stored summaries."""
    for name, kind in (("attempts", sa.Integer), ("pass_rate", sa.Double), ("composite", sa.Double)):
        op.add_column("runs", sa.Column(name, kind))
    op.create_index("ix_runs_pass_rate", "runs", ["pass_rate", "number"])
    op.create_index("ix_runs_composite", "runs", ["composite", "number"])
    op.create_index("ix_runs_suite_name", "runs", ["suite_name", "number"])
    op.create_index("ix_cases_id", "cases", ["suite", "id"])
    op.create_index(
        "ix_evaluations_worst", "evaluations", ["run", "passed", "composite", "position", "repeat"]
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
    )
    _fill_figures()
    _make_labels()
    op.create_table(
        "search_runs",
        sa.Column("run", _number, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("touched", sa.Float, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("repeat", sa.Integer, nullable=False),
        sa.Column("documents", sa.Integer, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
    )


def _make_labels() -> None:
    op.create_table(
        "label_queues",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("run", sa.String(64)),
        sa.Column("monitor", sa.Text),
        sa.Column("dimension", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("population", sa.Integer, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("closed", sa.Double),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_label_queues_run", "label_queues", ["run", "dimension"])
    op.create_table(
        "label_tasks",
        sa.Column("queue", _number, primary_key=True, autoincrement=False),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("item", sa.Integer, nullable=False),
        sa.Column("probability", sa.Double, nullable=False),
        sa.Column("how", sa.String(12), nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("missing", sa.Integer, nullable=False),
        sa.Column("drawn", sa.Double, nullable=False),
    )
    op.create_index("ix_label_tasks_missing", "label_tasks", ["queue", "missing", "place"])
    op.create_table(
        "label_leases",
        sa.Column("queue", _number, primary_key=True, autoincrement=False),
        sa.Column("by", sa.String(200), primary_key=True),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
    )
    op.create_index("ux_label_leases", "label_leases", ["queue", "place", "slot"], unique=True)
    op.create_table(
        "labels",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("case", sa.Text, nullable=False),
        sa.Column("repeat", sa.Integer, nullable=False),
        sa.Column("dimension", sa.Text, nullable=False),
        sa.Column("answer", sa.String(12), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("how", sa.String(12), nullable=False),
        sa.Column("probability", sa.Double),
        sa.Column("queue", _number),
        sa.Column("place", sa.Integer),
        sa.Column("undone", sa.Double),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("note", sa.Text),
    )
    op.create_index("ix_labels_run", "labels", ["run", "dimension", "number"])
    op.create_index("ix_labels_queue", "labels", ["queue", "number"])
    op.create_index("ix_labels_by", "labels", ["queue", "by", "number"])


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
