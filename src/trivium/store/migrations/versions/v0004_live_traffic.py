"""Tables of live traffic, alerts, tokens and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables; no existing one changes."""
    op.create_table(
        "live_resources",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "live_spans",
        sa.Column("number", _number, primary_key=True, autoincrement=False),
        sa.Column("span", sa.String(32), primary_key=True),
        sa.Column("digest", sa.String(32), primary_key=True),
        sa.Column("resource", sa.String(32), nullable=False),
        sa.Column("received", sa.Double, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "live_traces",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("trace", sa.String(64), nullable=False, unique=True),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("first", sa.Double, nullable=False),
        sa.Column("last", sa.Double, nullable=False),
        sa.Column("opened", sa.Double, nullable=False),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("root", sa.Boolean, nullable=False),
        sa.Column("spans", sa.Integer, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("service", sa.Text),
        sa.Column("late", sa.Boolean, nullable=False),
        sa.Column("body", sa.LargeBinary),
    )
    op.create_index("ix_live_traces_due", "live_traces", ["state", "due"])
    op.create_index("ix_live_traces_last", "live_traces", ["last"])
    op.create_table(
        "live_jobs",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("monitor", sa.Text, nullable=False),
        sa.Column("trace", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("probability", sa.Double, nullable=False),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
    )
    op.create_index("ix_live_jobs_due", "live_jobs", ["state", "due"])
    op.create_index("ux_live_jobs", "live_jobs", ["trace", "monitor", "version"], unique=True)
    op.create_table(
        "live_samples",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("monitor", sa.Text, nullable=False),
        sa.Column("trace", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("run", _number, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("scored", sa.Double, nullable=False),
        sa.Column("probability", sa.Double, nullable=False),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("score", sa.Double),
        sa.Column("passed", sa.Boolean),
        sa.Column("confidence", sa.Double),
        sa.Column("failed", sa.Boolean, nullable=False),
        sa.Column("seconds", sa.Double),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("facets", sa.Text, nullable=False),
    )
    op.create_index("ix_live_samples_run", "live_samples", ["run", "position"])
    op.create_index("ix_live_samples_time", "live_samples", ["monitor", "time"])
    op.create_index("ux_live_samples", "live_samples", ["trace", "monitor", "version"], unique=True)
    op.create_table(
        "live_scores",
        sa.Column("monitor", sa.Text, primary_key=True),
        sa.Column("trace", sa.String(64), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("metric", sa.String(200), primary_key=True),
        sa.Column("fingerprint", sa.String(32), primary_key=True),
        sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("status", sa.String(12), nullable=False),
        sa.Column("value", sa.Double),
    )
    op.create_table(
        "live_counts",
        sa.Column("monitor", sa.String(200), primary_key=True),
        sa.Column("hour", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("event", sa.String(40), primary_key=True),
        sa.Column("reason", sa.String(200), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "live_marks",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("monitor", sa.Text, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("kind", sa.String(12), nullable=False),
        sa.Column("version", sa.Text),
        sa.Column("note", sa.Text),
    )
    op.create_table(
        "live_states",
        sa.Column("monitor", sa.String(200), primary_key=True),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("touched", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "live_alerts",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("monitor", sa.Text, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("opened", sa.Double, nullable=False),
        sa.Column("changed", sa.Double, nullable=False),
        sa.Column("resolved", sa.Double),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("ix_live_alerts_state", "live_alerts", ["monitor", "state"])
    op.create_table(
        "live_deliveries",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("alert", _number, nullable=False),
        sa.Column("channel", sa.Integer, nullable=False),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
    )
    op.create_index("ix_live_deliveries_due", "live_deliveries", ["state", "due"])
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.String(128), nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("expires", sa.Double),
        sa.Column("revoked", sa.Double),
        sa.Column("used", sa.Double),
    )
    op.create_table(
        "audit",
        sa.Column("number", _number, primary_key=True, autoincrement=True),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
