"""``trivium list``: the stored runs."""

import click

from trivium.cli import options


@click.command(name="list")
@options.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Runs shown.")
@options.store
@options.as_json
def list_runs(limit: int, store: str, as_json: bool) -> None:
    """List the stored runs, newest first."""
    from trivium.cli.outcome import print_json
    from trivium.cli.screen import show
    from trivium.reports.runs_table import RunRow, RunsTable
    from trivium.store.records import RunRecord
    from trivium.store.store import Store

    def row(record: RunRecord) -> RunRow:
        summary = record.summary or {}
        composite = summary.get("composite") or {}
        return RunRow(
            run=record.id,
            suite=record.suite_name,
            started=record.created,
            state=record.state,
            attempts=summary["attempts"] if summary else sum(1 for _ in opened.answered(record)),
            due=summary.get("total_tests", record.due or 0),
            pass_rate=summary.get("pass_rate", {}).get("value"),
            composite=composite.get("mean"),
        )

    with Store(store, read_only=True) as opened:
        found = opened.runs(limit=limit + 1)
        rows = [row(record) for record in found[:limit]]
    if as_json:
        print_json(rows)
    else:
        show(RunsTable(rows, older=len(found) > limit))
