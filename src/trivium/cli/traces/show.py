"""``trivium traces show``: what traces hold, counted."""

from pathlib import Path

import click

from trivium.cli import options


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

    from trivium.cli.outcome import print_json
    from trivium.cli.screen import show as print_
    from trivium.reports.facts_table import FactsTable
    from trivium.reports.process.table import ProcessTable
    from trivium.traces.facts import handoffs_as_tools, trace_facts
    from trivium.traces.process.totals import process_totals
    from trivium.traces.readers import read_paths

    found, traces = read_paths(files, format_)
    facts, totals = trace_facts(traces, format=found), process_totals(traces)
    if as_json:
        print_json(msgspec.to_builtins(facts) | {"process": msgspec.to_builtins(totals)})
    else:
        print_(FactsTable(facts, handoffs=handoffs_as_tools(traces)))
        print_(ProcessTable(totals, traces=len(traces)))
