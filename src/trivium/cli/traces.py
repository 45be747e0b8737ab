"""``trivium traces``: shows, imports and exports traces of other tools."""

from pathlib import Path

import click

from trivium.cli import export as exporting
from trivium.cli import options
from trivium.cli.main import LazyCommands
from trivium.cli.options import Choice

COMMANDS = {
    "show": ("trivium.cli.traces:show", "Count what traces hold: agents, tools, tokens, messages."),
    "import": ("trivium.cli.traces:import_", "Turn other tools' traces into Trivium's own."),
    "export": ("trivium.cli.traces:export", "Write traces for OpenTelemetry and graph tools."),
}


@click.group(cls=LazyCommands, table=COMMANDS)
def traces() -> None:
    """Look at traces that other tools recorded, and turn them into Trivium's own.

    The format of a file is found out by what it holds. Files may be gzipped. Several files are read as
    one where their format splits a trace over files.
    """


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.option("--format", "format_", metavar="NAME", help="Format of the files, where it is not found out.")
@options.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write here, not to standard output.",
)
def import_(files: tuple[Path, ...], format_: str | None, output: str | None) -> None:
    """Write the traces in FILE as Trivium's own, one JSON object a line."""
    import msgspec

    from trivium.errors import InputError
    from trivium.traces.readers import read_paths

    found, traces = read_paths(files, format_)
    try:
        with click.open_file(output or "-", "wb") as file:
            file.writelines(msgspec.json.encode(trace) + b"\n" for trace in traces)
    except OSError as error:
        if output is None:
            raise
        raise InputError(output, f"cannot be written: {error.strerror or error}") from error
    repaired = sum(len(trace.problems) for trace in traces)
    problems = f", with {repaired:,} problems listed in them" if repaired else ""
    click.echo(f"read as {found}: {len(traces):,}{problems}", err=True)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.option("--format", "format_", metavar="NAME", help="Format of the files, where it is not found out.")
@options.as_json
def show(files: tuple[Path, ...], format_: str | None, as_json: bool) -> None:
    """Show what the traces in FILE hold, and how they went.

    Agents, tools, tokens, messages and what had to be repaired are counted; then whose the time was, what
    determined it (the critical path), what was done again (retries, loops) and how work was handed on.
    """
    import msgspec

    from trivium.cli.output import print_json
    from trivium.cli.output import show as print_
    from trivium.reports.trace_tables import FactsTable, ProcessTable
    from trivium.traces.process.totals import process_totals
    from trivium.traces.readers import read_paths
    from trivium.traces.summary import handoffs_as_tools, trace_facts

    found, traces = read_paths(files, format_)
    facts, totals = trace_facts(traces, format=found), process_totals(traces)
    if as_json:
        print_json(msgspec.to_builtins(facts) | {"process": msgspec.to_builtins(totals)})
    else:
        print_(FactsTable(facts, handoffs=handoffs_as_tools(traces)))
        print_(ProcessTable(totals, traces=len(traces)))


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.option(
    "--format",
    "format_",
    type=Choice(exporting.TRACE_FORMATS),
    default="otlp",
    show_default=True,
    help="What to write.",
)
@options.option("--from", "source", metavar="NAME", help="Format of the files, where it is not found out.")
@exporting.graph
@exporting.to
@options.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write here, not to standard output.",
)
def export(
    files: tuple[Path, ...], format_: str, source: str | None, graph: str, to: str | None, output: str | None
) -> None:
    """Write the traces in FILE for other tools: OpenTelemetry's, or those that draw and measure graphs."""
    from trivium.traces.readers import read_paths
    from trivium.traces.writers.otlp import traces_to_export

    exported = traces_to_export(read_paths(files, source)[1])
    if to is not None:
        exporting.send_traces(exported, to)
    else:
        exporting.write_traces(exported, format_=format_, graph=graph, output=output)
