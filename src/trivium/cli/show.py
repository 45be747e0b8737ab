"""``trivium show``: print a run, or write it as HTML, Markdown or JUnit."""

from pathlib import Path

import click

from trivium.cli import options


@click.command()
@click.argument("run", required=False)
@options.option(
    "--cases", type=click.IntRange(min=1), default=500, show_default=True, help="Cases in the HTML page."
)
@options.option(
    "--disagreements", is_flag=True, help="Show where judges disagree with each other or with people."
)
@options.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="People's labels to compare judges with.",
)
@options.option("--against", metavar="RUN", help="Another run whose judges are compared with this one's.")
@options.store
@options.as_json
@options.quiet
@options.inconclusive
@options.reports
def show(
    run: str | None,
    cases: int,
    disagreements: bool,
    labels: Path | None,
    against: str | None,
    store: str,
    as_json: bool,
    quiet: bool,
    inconclusive: str | None,
    html: str | None,
    markdown: str | None,
    junit: str | None,
) -> int:
    """Print RUN (the newest when none is named), or write it as HTML, Markdown or JUnit.

    `trivium show metrics` lists every metric that a suite may name.

    With --disagreements the table, the Markdown and the JSON are of where judges disagree: judges of a panel
    among each other, with people's --labels, or with the judges of another run (--against).
    """
    from trivium.cli.outcome import exit_code, present
    from trivium.runs.run import Run

    if run == "metrics":
        from trivium.cli.metrics_table import show_metrics

        return show_metrics(as_json=as_json)
    shown = Run.load(run, store=store)
    found = None
    if disagreements or labels is not None or against is not None:
        other = None if against is None else Run.load(against, store=shown.store)
        found = shown.disagreements(labels=labels, against=other)
    summary = shown.summary()
    present(
        shown,
        summary,
        as_json=as_json,
        quiet=quiet,
        html=html,
        markdown=markdown,
        junit=junit,
        cases_shown=cases,
        disagreements=found,
        only_disagreements=disagreements,
    )
    return exit_code(summary, inconclusive=inconclusive)
