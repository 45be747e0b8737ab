"""``trivium show``: print a run, or write it as HTML, Markdown or JUnit."""

import click

from trivium.cli import options


@click.command()
@click.argument("run", required=False)
@options.option(
    "--cases", type=click.IntRange(min=1), default=500, show_default=True, help="Cases in the HTML page."
)
@options.store
@options.as_json
@options.quiet
@options.inconclusive
@options.reports
def show(
    run: str | None,
    cases: int,
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
    """
    from trivium.cli.outcome import exit_code, present
    from trivium.runs.run import Run

    if run == "metrics":
        from trivium.cli.metrics_table import show_metrics

        return show_metrics(as_json=as_json)
    summary = present(
        Run.load(run, store=store),
        as_json=as_json,
        quiet=quiet,
        html=html,
        markdown=markdown,
        junit=junit,
        cases_shown=cases,
    )
    return exit_code(summary, inconclusive=inconclusive)
