"""``trivium export``: a run's data for other programs."""

import sys
from contextlib import nullcontext
from pathlib import Path

import click

from trivium.cli import options

WHAT = ("scores", "attempts", "summary", "judgements", "items", "labels")


@click.command()
@click.argument("run", required=False)
@options.option("--what", type=click.Choice(WHAT), default="scores", show_default=True, help="Which data.")
@options.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="People's labels, for --what items and labels.",
)
@options.option(
    "--format", "format_", type=click.Choice(["jsonl", "csv", "parquet"]), default="jsonl", show_default=True
)
@options.option(
    "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write here, not to standard output."
)
@options.option(
    "--stable", is_flag=True, help="Without run ids and measured times: equal inputs give equal bytes."
)
@options.store
def export(
    run: str | None,
    what: str,
    labels: Path | None,
    format_: str,
    output: str | None,
    stable: bool,
    store: str,
) -> None:
    """Write the data of RUN (the newest when none is named) for other programs."""
    from trivium.errors import InputError
    from trivium.runs.frames.kinds import kind
    from trivium.store.export.writing import WRITERS
    from trivium.store.store import Store

    make, columns = kind(what, labels)
    if stable:
        columns = tuple(column for column in columns if column not in {"run", "seconds"})
    with Store(store, create=False) as opened:
        record = opened.run(run)
        rows = make(opened, record, stable=stable)
        try:
            with Path(output).open("wb") if output else nullcontext(sys.stdout.buffer) as file:
                WRITERS[format_](rows, columns, file)
        except OSError as error:
            if output is None:
                raise
            raise InputError(output, f"cannot be written: {error.strerror}") from error
