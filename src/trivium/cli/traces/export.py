"""``trivium traces export``: traces for tools of OpenTelemetry and of graphs."""

from pathlib import Path

import click

from trivium.cli import exporting, options
from trivium.cli.options import Words


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.option(
    "--format",
    "format_",
    type=Words(exporting.TRACE_FORMATS),
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
    from trivium.traces.writers.told import told_of_traces

    told = told_of_traces(read_paths(files, source)[1])
    if to is not None:
        exporting.send(told, to)
    else:
        exporting.write(told, format_=format_, graph=graph, output=output)
