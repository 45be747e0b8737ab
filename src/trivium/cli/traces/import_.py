"""``trivium traces import``: other tools' traces as Trivium's own."""

from pathlib import Path

import click

from trivium.cli import options


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
    told = f", with {repaired:,} problems listed in them" if repaired else ""
    click.echo(f"read as {found}: {len(traces):,}{told}", err=True)
