"""``trivium export``: writes a run's data as tables, traces or graphs."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from trivium.cli import options
from trivium.cli.options import STANDARD_OUTPUT, Choice
from trivium.errors import InputError
from trivium.masking import mask
from trivium.storage import replaced_when_complete, writable
from trivium.values import json_text

if TYPE_CHECKING:
    from trivium.runs.rows import RowSource
    from trivium.store.records import RunRecord
    from trivium.store.store import Store

TABLE_KINDS = ("scores", "attempts", "summary", "judgements", "items", "labels", "review")
TABLE_FORMATS = ("jsonl", "csv", "parquet")
TRACE_FORMATS = ("otlp", "otlp-protobuf", "atif", "graphml", "dot", "edges-jsonl")
RECORD = "every-eval-ever"
"""Format of the means of a run."""
LOG = "inspect"
"""Format of a run as a log of Inspect AI."""

graph = options.option(
    "--graph",
    type=Choice(["agents", "tools"]),
    default="agents",
    help="Which graph, for graphml, dot and edges-jsonl.",
)
to = options.option(
    "--to", metavar="URL", help="Send to this OTLP endpoint, such as http://127.0.0.1:4318/v1/traces."
)


@contextmanager
def open_output(output: Path) -> Iterator[BinaryIO]:
    """Open a file to write, or standard output if it is ``-``.

    The file gets its name when it is complete: if an error ends the writing, an earlier one stays as it was.

    Raises:
        InputError: If the file cannot be written.
    """
    if output == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        return
    with writable(output), replaced_when_complete(output) as unfinished, unfinished.open("wb") as file:
        yield file


def write_traces(traces: Iterable[Any], *, format_: str, graph: str, output: Path) -> None:
    """Write traces or their graphs in one of ``TRACE_FORMATS``.

    Raises:
        InputError: If the file cannot be written.
    """
    from trivium.store.export import graphs
    from trivium.traces.writers import atif
    from trivium.traces.writers.otlp import delimited, request, resource_spans

    with open_output(output) as file:
        if format_ == "otlp":
            file.writelines(request([entry]) + b"\n" for entry in resource_spans(traces))
        elif format_ == "otlp-protobuf":
            file.writelines(map(delimited, resource_spans(traces)))
        elif format_ == "atif":
            file.writelines(atif.lines(traces))
        elif format_ == "edges-jsonl":
            file.writelines(graphs.graph_lines(traces, graph))
        else:
            writer = graphs.write_dot if format_ == "dot" else graphs.write_graphml
            writer(graphs.pooled_graph(traces, graph), graph, file)


def send_traces(traces: Iterable[Any], url: str) -> None:
    """Send traces to an OTLP endpoint and print the number of spans."""
    from trivium.store.export.otlp import send
    from trivium.traces.writers.otlp import resource_spans
    from trivium.values import counted

    sent = send(resource_spans(traces), url)
    click.echo(f"sent {counted(sent, 'span')} to {mask(url)}", err=True)


@options.command(
    "trivium export --format csv --output scores.csv",
    "trivium export --what review --certificate certificate.json --output queue.jsonl",
)
@click.argument("run", required=False)
@options.option(
    "--what",
    type=options.Choice(TABLE_KINDS),
    default="scores",
    help="Which data to write.",
)
@options.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="People's labels, for --what items and labels.",
)
@options.certificate
@options.option(
    "--confidence",
    metavar="NAME",
    help="Confidence to write with judgements and items (verbalized, token_msp, …).",
)
@options.option(
    "--format",
    "format_",
    type=options.Choice([*TABLE_FORMATS, *TRACE_FORMATS, RECORD, LOG]),
    default="jsonl",
    help="Format of a table, of traces and graphs, of the means, or of a whole run.",
)
@graph
@options.option(
    "--to",
    metavar="URL|opik",
    help="Send traces and scores to this OTLP endpoint, such as http://127.0.0.1:4318/v1/traces, or to Opik.",
)
@options.option("--project", metavar="NAME", help="Opik project, for --to opik.")
@options.output_file("--output", default="-", help="Write here, not to standard output.")
@options.option(
    "--stable", is_flag=True, help="Leave out run ids and measured times: equal inputs give equal bytes."
)
@options.store
def export(run: str | None, **given: Any) -> None:
    """Write the data of RUN (the newest when none is named) for other programs."""
    from trivium.runs.rows import rows_of_kind
    from trivium.store.export.otlp import traces_of_run
    from trivium.store.store import Store

    format_, to, output, table = given["format_"], given["to"], given["output"], None
    if to is None and format_ in TABLE_FORMATS:
        table = rows_of_kind(given["what"], given["labels"], given["certificate"], given["confidence"])
    elif given["what"] != "scores" or given["stable"]:
        raise InputError(
            "--what" if given["what"] != "scores" else "--stable",
            f"can only be used with --format {', '.join(TABLE_FORMATS)}",
        )
    with Store(given["store"], read_only=True) as opened:
        record = opened.run(run)
        if table is not None:
            _write_table(opened, record, *table, given)
        elif to == "opik":
            from trivium.integrations.opik import push
            from trivium.runs.run import Run

            click.echo(push(Run(opened, record), project=given["project"]), err=True)
        elif to is not None:
            send_traces(traces_of_run(opened, record), to)
        elif format_ == RECORD:
            from trivium.store.export.every_eval_ever import record_of

            with open_output(output) as file:
                file.write(json_text(record_of(record)).encode() + b"\n")
        elif format_ == LOG:
            from trivium.formats.inspect_log.writing import log_pieces

            with open_output(output) as file:
                file.writelines(log_pieces(opened, record))
        else:
            traces = traces_of_run(opened, record)
            write_traces(traces, format_=format_, graph=given["graph"], output=output)


def _write_table(
    store: "Store", run: "RunRecord", rows_of: "RowSource", columns: tuple[str, ...], given: Mapping[str, Any]
) -> None:
    from trivium.store.export.tables import WRITERS

    if given["stable"]:
        columns = tuple(column for column in columns if column not in {"run", "seconds"})
    if run.kind == "live":
        for note in run.provenance.notes:
            click.echo(f"! {note}", err=True)
    with open_output(given["output"]) as file:
        WRITERS[given["format_"]](rows_of(store, run, stable=given["stable"]), columns, file)
