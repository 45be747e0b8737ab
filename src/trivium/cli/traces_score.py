"""``trivium traces score``: scores recorded traces without a suite."""

import signal
from typing import Any

import click
import msgspec

from trivium.cli import options
from trivium.cli.options import Choice, split_names
from trivium.keywords import taken

WITH_ERRORS = 3


EXAMPLES = """\b
Examples:
  trivium traces score traces/
  trivium traces score collector/*.jsonl --since 24h --agent researcher
  trivium traces score runs.jsonl --trace-id 5b8efff798038103d269b633813fc60c
  trivium traces score traces/ --judge openai:gpt-4o-mini --html report.html
"""


@click.command(epilog=EXAMPLES)
@click.argument("paths", metavar="FILE|FOLDER...", nargs=-1, required=True)
@options.option("--format", metavar="NAME", help="Format of the files, if it cannot be detected.")
@options.option(
    "--by",
    type=Choice(["trace", "conversation"]),
    default="trace",
    show_default=True,
    help="Score each trace, or each conversation, whose traces are its turns.",
)
@options.option(
    "--trace-id", "trace_ids", multiple=True, metavar="ID", help="Only this trace (may be repeated)."
)
@options.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only traces with this tag (may be repeated)."
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME",
    envvar="TRIVIUM_TRACE_AGENT",
    help="Only traces in which this agent acted (may be repeated).",
)
@options.option("--since", metavar="TIME", help="Only traces that began then or later: a date, 24h, 7d.")
@options.option("--until", metavar="TIME", help="Only traces that began before then.")
@options.option("--metrics", metavar="A,B,…", help="Metrics instead of all that need no expectation.")
@options.option("--judge", multiple=True, metavar="MODEL", help="Model that judges the traces.")
@options.option("--rubric", multiple=True, metavar="NAME|FILE", help="What is judged (default: agent).")
@options.config
@options.store
@options.resume
@options.workers
@options.engine
@options.as_json
@options.quiet
@options.policy
@options.reports
def score(paths: tuple[str, ...], **given: Any) -> int:
    """Score the traces in files and folders, of any format, without a suite.

    Prints how many traces there are and how many failed, times, tokens, cost and failures by agent and tool,
    every metric that needs no expectation, and the worst traces. Stores the run, for `trivium show`,
    `compare` and `export`. Names and leaves out files that cannot be read (exit code 3).
    """
    from trivium.cli.output import (
        Presentation,
        ProgressBar,
        exit_code,
        present,
        print_json,
        reserved_stdout,
        show,
    )
    from trivium.reports.trace_scores import describe
    from trivium.runs.run import Run
    from trivium.runs.trace_scores.score import score_traces
    from trivium.runs.trace_scores.settings import TraceScoringOptions

    bar = ProgressBar(quiet=given["quiet"] or given["as_json"])
    chosen = {"metrics": split_names(given["metrics"]), "progress": bar}
    chosen |= {name: given[name] or None for name in ("judge", "rubric")}
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with reserved_stdout():
            report = score_traces(paths, **taken(TraceScoringOptions, given) | chosen)
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
    if given["policy"] is not None:
        stored = Run.load(report.run, store=given["store"])
        report = msgspec.structs.replace(report, summary=stored.summary(policy=given["policy"]))
    if given["as_json"]:
        print_json(report)
    elif not given["quiet"]:
        show(describe(report))
    else:
        for problem in report.problems:
            click.echo(f"unreadable: {problem}", err=True)
    files = {kind: given[kind] for kind in ("html", "markdown", "junit")}
    if any(files.values()):
        run = Run.load(report.run, store=given["store"])
        present(run, report.summary, Presentation(quiet=True, **files))
    code = exit_code(report.summary)
    return WITH_ERRORS if report.unreadable and code in {0, 4} else code
