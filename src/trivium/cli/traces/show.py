"""``trivium traces show``: what traces hold, counted."""

from pathlib import Path

import click

from trivium.cli import options


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.option("--format", "format_", metavar="NAME", help="Format of the files, where it is not found out.")
@options.as_json
def show(files: tuple[Path, ...], format_: str | None, as_json: bool) -> None:
    """Count what the traces in FILE hold: agents, tools, tokens, messages, and what had to be repaired."""
    from trivium.cli.outcome import print_json
    from trivium.cli.screen import show as print_
    from trivium.reports.facts_table import FactsTable
    from trivium.traces.facts import trace_facts
    from trivium.traces.readers import read_paths

    found, traces = read_paths(files, format_)
    facts = trace_facts(traces, format=found)
    if as_json:
        print_json(facts)
    else:
        print_(FactsTable(facts))
