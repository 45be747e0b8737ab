"""What runs are called in lists and found by: agent, version, commit; the interval of the pass rate; tags."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_ROWS_AT_ONCE = 500


def upgrade() -> None:
    """Add columns and the table of tags, and fill them from what is stored."""
    for name in ("agent", "version", "git_commit", "git_subject"):
        op.add_column("runs", sa.Column(name, sa.Text))
    for name in ("pass_rate_low", "pass_rate_high"):
        op.add_column("runs", sa.Column(name, sa.Double))
    op.create_index("ix_runs_version", "runs", ["version", "number"])
    op.create_index("ix_runs_commit", "runs", ["git_commit", "number"])
    op.create_table(
        "suite_tags",
        sa.Column("tag", sa.String(200), primary_key=True),
        sa.Column("suite", sa.String(64), primary_key=True),
    )
    _name_runs()
    _collect_tags()


def _name_runs() -> None:
    connection = op.get_bind()
    texts = ("provenance", "summary", "agent", "version", "git_commit", "git_subject")
    runs = sa.table(
        "runs",
        sa.column("number", sa.BigInteger),
        *(sa.column(name, sa.Text) for name in texts),
        *(sa.column(name, sa.Double) for name in ("pass_rate_low", "pass_rate_high")),
    )
    page = sa.select(runs.c.number, runs.c.provenance, runs.c.summary).order_by(runs.c.number)
    after = -1
    while rows := connection.execute(page.where(runs.c.number > after).limit(_ROWS_AT_ONCE)).all():
        for number, provenance, summary in rows:
            values = _names(_object(provenance)) | _interval(_object(summary))
            connection.execute(sa.update(runs).where(runs.c.number == number).values(values))
        after = rows[-1].number


def _collect_tags() -> None:
    connection = op.get_bind()
    cases = sa.table("cases", sa.column("suite", sa.Text), sa.column("position"), sa.column("body", sa.Text))
    tags = sa.table("suite_tags", sa.column("tag", sa.Text), sa.column("suite", sa.Text))
    key = sa.tuple_(cases.c.suite, cases.c.position)
    page = sa.select(cases).order_by(cases.c.suite, cases.c.position).limit(_ROWS_AT_ONCE)
    found: set[tuple[str, str]] = set()
    after: tuple[str, int] = ("", -1)
    while rows := connection.execute(page.where(key > after)).all():
        for suite, _, body in rows:
            listed = _object(body).get("tags") if '"tags"' in body else None
            if isinstance(listed, list):
                found.update((str(tag)[:200], suite) for tag in listed)
        after = (rows[-1].suite, rows[-1].position)
    if found:
        connection.execute(sa.insert(tags), [{"tag": tag, "suite": suite} for tag, suite in sorted(found)])


def _object(text: str | None) -> dict[str, Any]:
    """A stored JSON object; one that is damaged says nothing."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _names(provenance: dict[str, Any]) -> dict[str, str | None]:
    git = provenance.get("git")
    git = git if isinstance(git, dict) else {}
    commit = git.get("commit")
    return {
        "agent": _text(provenance.get("agent")),
        "version": _text(provenance.get("version")),
        "git_commit": f"{commit[:9]}{'+' * bool(git.get('dirty'))}" if isinstance(commit, str) else None,
    }


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _interval(summary: dict[str, Any]) -> dict[str, float]:
    rate = summary.get("pass_rate")
    ends = rate.get("ci95") if isinstance(rate, dict) else None
    if not isinstance(ends, list) or len(ends) != 2:
        return {}
    return {"pass_rate_low": ends[0], "pass_rate_high": ends[1]}
