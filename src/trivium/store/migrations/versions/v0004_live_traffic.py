"""Tables of live traffic, alerts, tokens and the audit log."""

from alembic import op

from trivium.store import schema

revision = "0004"
down_revision = "0003"

_NAMES = (
    "live_resources", "live_spans", "live_traces", "live_jobs", "live_samples", "live_scores", "live_counts",
    "live_marks", "live_states", "live_alerts", "live_deliveries", "tokens", "audit",
)  # fmt: skip


def upgrade() -> None:
    """Make the tables; no existing one changes."""
    made = [schema.metadata.tables[name] for name in _NAMES]
    schema.metadata.create_all(op.get_bind(), tables=made, checkfirst=False)
