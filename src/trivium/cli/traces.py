"""``trivium traces``: shows, imports and exports traces of other tools."""

from pathlib import Path

import click

from trivium.cli import export as exporting
from trivium.cli import options
from trivium.cli.main import LazyCommands
from trivium.cli.options import Choice

COMMANDS = {
    "show": ("trivium.cli.traces:show", "Count agents, tools, tokens and messages; analyse the process."),
    "score": ("trivium.cli.traces_score:score", "Score traces without a suite: by agent, tool and metric."),
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


@click.command(
    "import",
    epilog=options.examples(
        "trivium traces import claude-code.jsonl --output traces.jsonl",
    ),
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.option("--format", "format_", metavar="NAME", help="Format of the files, if it cannot be detected.")
@options.output_file("-o", "--output", default="-", help="Write here, not to standard output.")
def import_(files: tuple[str, ...], format_: str | None, output: Path) -> None:
    """Write the traces in FILE in Trivium's format, one JSON object per line."""
    import msgspec

    from trivium.traces.readers import read_paths

    detected, traces = read_paths(files, format_)
    with exporting.open_output(output) as file:
        file.writelines(msgspec.json.encode(trace) + b"\n" for trace in traces)
    repaired = sum(len(trace.problems) for trace in traces)
    problems = f", with {repaired:,} problems listed in them" if repaired else ""
    click.echo(f"read as {detected}: {len(traces):,}{problems}", err=True)


@click.command(
    epilog=options.examples(
        "trivium traces show trace.json",
    )
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.option("--format", "format_", metavar="NAME", help="Format of the files, if it cannot be detected.")
@options.as_json
def show(files: tuple[str, ...], format_: str | None, as_json: bool) -> None:
    """Count and analyse the traces in FILE.

    Counts agents, tools, tokens, messages and repaired problems. Then reports time shares, the critical path,
    retries, loops and hand-offs.
    """
    from itertools import chain

    import msgspec

    from trivium.cli.output import print_json
    from trivium.cli.output import show as print_
    from trivium.reports.trace_tables import facts_blocks, process_blocks
    from trivium.traces.process.totals import handoffs_as_tools, process_totals, trace_facts
    from trivium.traces.readers import read_paths

    detected, traces = read_paths(files, format_)
    facts, totals = trace_facts(traces, format=detected), process_totals(traces)
    if as_json:
        print_json(msgspec.to_builtins(facts) | {"process": msgspec.to_builtins(totals)})
    else:
        recorded = facts_blocks(facts, handoffs=handoffs_as_tools(traces))
        print_(chain(recorded, process_blocks(totals, traces=len(traces))))


@click.command(
    epilog=options.examples(
        "trivium traces export trace.json --format otlp --output spans.json",
    )
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.option(
    "--format",
    "format_",
    type=Choice(exporting.TRACE_FORMATS),
    default="otlp",
    show_default=True,
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
    from trivium.traces.readers import read_paths
    from trivium.traces.writers.otlp import traces_to_export

    exported = traces_to_export(read_paths(files, source)[1])
    if to is not None:
        exporting.send_traces(exported, to)
    else:
        exporting.write_traces(exported, format_=format_, graph=graph, output=output)
