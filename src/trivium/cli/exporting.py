"""What ``trivium export`` and ``trivium traces export`` share: traces and graphs to a file or an address."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import click

from trivium.cli import options
from trivium.cli.options import Words

TRACE_FORMATS = ("otlp", "otlp-protobuf", "graphml", "dot", "edges-jsonl")

graph = options.option(
    "--graph",
    type=Words(["agents", "tools"]),
    default="agents",
    show_default=True,
    help="Which graph, for graphml, dot and edges-jsonl.",
)
to = options.option(
    "--to", metavar="URL", help="Send to this OTLP endpoint, such as http://127.0.0.1:4318/v1/traces."
)


def opened(output: str | None) -> "AbstractContextManager[Any]":
    """The file to write, or standard output."""
    import sys

    return Path(output).open("wb") if output else nullcontext(sys.stdout.buffer)


def write(told: Iterable[Any], *, format_: str, graph: str, output: str | None) -> None:
    """Write traces or their graphs in one of ``TRACE_FORMATS``.

    Raises:
        InputError: If the file cannot be written.
    """
    from trivium.errors import InputError

    try:
        with opened(output) as file:
            _write(told, file, format_=format_, graph=graph)
    except OSError as error:
        if output is None:
            raise
        raise InputError(output, f"cannot be written: {error.strerror}") from error


def _write(told: Iterable[Any], file: BinaryIO, *, format_: str, graph: str) -> None:
    from trivium.store.export import graphs
    from trivium.traces.writers.otlp import request, resource_spans
    from trivium.traces.writers.protobuf import delimited

    if format_ == "otlp":
        file.writelines(request([entry]) + b"\n" for entry in resource_spans(told))
    elif format_ == "otlp-protobuf":
        file.writelines(map(delimited, resource_spans(told)))
    elif format_ == "edges-jsonl":
        file.writelines(graphs.graph_lines(told, graph))
    else:
        writer = graphs.write_dot if format_ == "dot" else graphs.write_graphml
        writer(graphs.pooled(told, graph), file)


def send(told: Iterable[Any], url: str) -> None:
    """Send traces to an OTLP endpoint, and say how many spans went."""
    from trivium.masking import mask
    from trivium.reports.wording import counted
    from trivium.store.export.sending import send
    from trivium.traces.writers.otlp import resource_spans

    sent = send(resource_spans(told), url)
    click.echo(f"sent {counted(sent, 'span')} to {mask(url)}", err=True)
