"""``trivium traces``: shows, scores, imports and exports traces of other tools."""

from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec

from trivium.cli import export as exporting
from trivium.cli import options
from trivium.cli.main import LazyCommands
from trivium.cli.options import Choice, split_names
from trivium.cli.output import WITH_ERRORS, Presentation, ProgressBar, exit_code, present, print_json, storing
from trivium.cli.output import show as print_
from trivium.keywords import taken

COMMANDS = {
    "show": ("trivium.cli.traces:show", "Count agents, tools, tokens and messages; analyse the process."),
    "score": ("trivium.cli.traces:score", "Score traces without a suite: by agent, tool and metric."),
    "import": ("trivium.cli.traces:import_", "Convert other tools' traces to Trivium's format."),
    "export": ("trivium.cli.traces:export", "Write traces for OpenTelemetry and graph tools."),
}


@click.group(cls=LazyCommands, table=COMMANDS)
def traces() -> None:
    """Analyse and convert traces that other tools recorded.

    The format of a file is detected from its content. Files may be gzipped, and may be addresses or patterns
    of addresses, such as "s3://bucket/logs/*.jsonl". Several files are read together if their format splits a
    trace across files.
    """


@options.command("trivium traces import claude-code.jsonl --output traces.jsonl", name="import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.option("--format", "format_", metavar="NAME", help="Format of the files, if it cannot be detected.")
@options.output_file("-o", "--output", default="-", help="Write here, not to standard output.")
def import_(files: tuple[str, ...], format_: str | None, output: Path) -> None:
    """Write the traces in FILE in Trivium's format, one JSON object per line."""
    from trivium.traces.readers.collection import read_paths

    detected, traces = read_paths(files, format_)
    with exporting.open_output(output) as file:
        file.writelines(msgspec.json.encode(trace) + b"\n" for trace in traces)
    repaired = sum(len(trace.problems) for trace in traces)
    problems = f", with {repaired:,} problems listed in them" if repaired else ""
    click.echo(f"read as {detected}: {len(traces):,}{problems}", err=True)


@options.command("trivium traces show trace.json")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.option("--format", "format_", metavar="NAME", help="Format of the files, if it cannot be detected.")
@options.as_json
def show(files: tuple[str, ...], format_: str | None, as_json: bool) -> None:
    """Count and analyse the traces in FILE.

    Counts agents, tools, tokens, messages and repaired problems. Then reports time shares, the critical path,
    retries, loops and hand-offs.
    """
    from trivium.reports.trace_tables import facts_blocks, process_blocks
    from trivium.traces.process.totals import handoffs_as_tools, process_totals, trace_facts
    from trivium.traces.readers.collection import read_paths

    detected, traces = read_paths(files, format_)
    facts, totals = trace_facts(traces, format=detected), process_totals(traces)
    if as_json:
        print_json(msgspec.to_builtins(facts) | {"process": msgspec.to_builtins(totals)})
    else:
        recorded = facts_blocks(facts, handoffs=handoffs_as_tools(traces))
        print_(chain(recorded, process_blocks(totals, traces=len(traces))))


@options.command("trivium traces export trace.json --format otlp --output spans.json")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.option(
    "--format",
    "format_",
    type=Choice(exporting.TRACE_FORMATS),
    default="otlp",
    help="What to write.",
)
@options.option("--from", "source", metavar="NAME", help="Format of the files, if it cannot be detected.")
@exporting.graph
@exporting.to
@options.output_file("-o", "--output", default="-", help="Write here, not to standard output.")
def export(
    files: tuple[str, ...], format_: str, source: str | None, graph: str, to: str | None, output: Path
) -> None:
    """Write the traces in FILE for other tools: as OpenTelemetry spans, or as graphs."""
    from trivium.traces.readers.collection import read_paths
    from trivium.traces.writers.otlp import traces_to_export

    exported = traces_to_export(read_paths(files, source)[1])
    if to is not None:
        exporting.send_traces(exported, to)
    else:
        exporting.write_traces(exported, format_=format_, graph=graph, output=output)


@options.command(
    "trivium traces score traces/",
    "trivium traces score collector/*.jsonl --since 24h --agent researcher",
    "trivium traces score runs.jsonl --trace-id 5b8efff798038103d269b633813fc60c",
    "trivium traces score traces/ --judge openai:gpt-4o-mini --html report.html",
)
@click.argument("paths", metavar="FILE|FOLDER...", nargs=-1, required=True)
@options.option("--format", metavar="NAME", help="Format of the files, if it cannot be detected.")
@options.option(
    "--by",
    type=Choice(["trace", "conversation"]),
    default="trace",
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
@options.option(
    "--rows",
    type=click.IntRange(min=1),
    default=15,
    metavar="N",
    help="Most rows of each table.",
)
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
    from trivium.reports.trace_scores import describe
    from trivium.runs.run import Run
    from trivium.runs.trace_scores.score import score_traces
    from trivium.runs.trace_scores.settings import TraceScoringOptions

    bar = ProgressBar(quiet=given["quiet"] or given["as_json"])
    chosen = {"metrics": split_names(given["metrics"]), "progress": bar}
    chosen |= {name: given[name] or None for name in ("judge", "rubric")}
    with storing():
        report = score_traces(paths, **taken(TraceScoringOptions, given) | chosen)
    if given["policy"] is not None:
        stored = Run.load(report.run, store=given["store"])
        report = msgspec.structs.replace(report, summary=stored.summary(policy=given["policy"]))
    if given["as_json"]:
        print_json(report)
    elif not given["quiet"]:
        print_(describe(report, rows=given["rows"]))
    else:
        for problem in report.problems:
            click.echo(f"unreadable: {problem}", err=True)
    files = {kind: given[kind] for kind in ("html", "markdown", "junit")}
    if any(files.values()):
        run = Run.load(report.run, store=given["store"])
        present(run, report.summary, Presentation(quiet=True, **files))
    code = exit_code(report.summary)
    return WITH_ERRORS if report.unreadable and code in {0, 4} else code
