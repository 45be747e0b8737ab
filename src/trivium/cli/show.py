"""``trivium show`` and ``trivium list``: print a stored run, the list of runs, or the list of metrics."""

from pathlib import Path
from typing import Any

import click

from trivium.cli import options
from trivium.cli.output import Presentation, exit_code, present, print_answer
from trivium.keywords import taken
from trivium.metrics.registry import CASE_FIGURES, OFF_BY_DEFAULT, PLANNING, metric_class, usable_metrics


@options.command(
    "trivium show", "trivium show --html report.html --markdown report.md", "trivium show metrics"
)
@click.argument("run", required=False)
@options.option(
    "--cases",
    type=click.IntRange(min=1),
    default=500,
    help="Worst cases with judgements and drawings of traces in the HTML page; it has the others in brief.",
)
@options.option(
    "--disagreements", is_flag=True, help="Show where judges disagree with each other or with people."
)
@options.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Human labels to compare judges with.",
)
@options.option("--against", metavar="RUN", help="Another run whose judges are compared with this one's.")
@options.by
@options.store
@options.as_json
@options.quiet
@options.details
@options.policy
@options.reports
def show(run: str | None, **given: Any) -> int:
    """Print RUN (default: the newest), or write it as HTML, Markdown or JUnit.

    `trivium show metrics` lists every metric that a suite may name.

    With --disagreements, the table, Markdown and JSON list where judges disagree: the judges of a panel with
    each other, with human --labels, or with the judges of another run (--against).
    """
    from trivium.runs.run import Run

    if run == "metrics":
        return show_metrics(as_json=given["as_json"])
    shown = Run.load(run, store=given["store"])
    found, against = None, given["against"]
    if given["disagreements"] or given["labels"] is not None or against is not None:
        other = None if against is None else Run.load(against, store=shown.store)
        found = shown.disagreements(labels=given["labels"], against=other)
    summary = shown.summary(policy=given["policy"])
    how = Presentation(
        **taken(Presentation, given | {"disagreements": found}),
        cases_shown=given["cases"],
        slices=[shown.slices(key) for key in given["by"]],
        only_disagreements=given["disagreements"],
    )
    present(shown, summary, how)
    return exit_code(summary)


@options.command("trivium list --limit 5", name="list")
@options.option("--limit", type=click.IntRange(min=1), default=20, help="Runs shown.")
@options.store
@options.as_json
def list_runs(limit: int, store: str, as_json: bool) -> None:
    """List the stored runs, newest first."""
    from msgspec.structs import asdict

    from trivium.reports.runs_table import RunRow, runs_blocks
    from trivium.reports.wording import run_name
    from trivium.store.browsing.before import before
    from trivium.store.records import RunRecord, figures_of
    from trivium.store.store import Store

    def row(record: RunRecord) -> RunRow:
        summary = record.summary or {}
        figures = figures_of(summary)
        attempts = summary["attempts"] if summary else sum(1 for _ in opened.attempt_keys(record))
        names = record.names
        return RunRow(
            run=record.id,
            suite=record.suite_name,
            kind=record.kind,
            started=record.created,
            state=record.state,
            attempts=attempts,
            due=attempts if record.kind == "live" else summary.get("total_tests", record.due or 0),
            pass_rate=figures["pass_rate"],
            composite=figures["composite"],
            confirms=None if (what := record.provenance.confirms) is None else what.run,
            fingerprint=record.provenance.fingerprint,
            before=pair.answer if (pair := known.get(record.id)) else None,
            name=run_name(record.suite_name, names),
            **asdict(names),
        )

    with Store(store, read_only=True) as opened:
        found = opened.runs(limit=limit + 1)
        known = before(opened, [record.id for record in found[:limit]])
        rows = [row(record) for record in found[:limit]]
    print_answer(rows, lambda each: runs_blocks(each, older=len(found) > limit), as_json=as_json)


def show_metrics(*, as_json: bool) -> int:
    """Print every metric with its tier and the first line of its docstring."""
    rows = []
    for name in usable_metrics():
        if name in CASE_FIGURES:
            rows.append(
                {"metric": name, "tier": "trace", "default": True, "what": "Agreement of the repeats."}
            )
            continue
        cls = metric_class(name)
        what = (cls.__doc__ or "").strip().splitlines()[0]
        default = name not in OFF_BY_DEFAULT and (cls.tier != "judge" or name == PLANNING)
        rows.append({"metric": name, "tier": cls.tier, "default": default, "what": what})
    width = max(len(str(row["metric"])) for row in rows)
    off = {True: "", False: " (off unless named)"}
    lines = [f"{r['metric']:<{width}}  {r['tier']:<6} {r['what']}{off[bool(r['default'])]}" for r in rows]
    print_answer(rows, lambda _: "\n".join(lines), as_json=as_json)
    return 0
