"""``trivium case``: makes a case of a trace, and adds it to a suite."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trivium.cli import options
from trivium.cli.main import LazyCommands
from trivium.errors import Problem, StoreError, SuiteError, TraceError
from trivium.storage import is_remote

if TYPE_CHECKING:
    from trivium.agents.recorded.new_case import Recorded

COMMANDS = {"from": ("trivium.cli.case:from_", "Make a case of a trace, and add it to a suite.")}


@click.group(cls=LazyCommands, table=COMMANDS)
def case() -> None:
    """Make cases of what happened in production."""


@options.command(
    "trivium case from trace.json",
    "trivium case from traces/ --trace-id 5b8efff798038103 --suite suite.yaml",
    "trivium case from trace.json --suite suite.yaml --calls calls.jsonl --yes",
    "trivium case from 5b8efff798038103 --suite suite.yaml --yes",
    name="from",
)
@click.argument("trace", metavar="TRACE")
@options.option("--suite", metavar="FILE", help="The suite, or the file of its cases, that gets the case.")
@options.option("--trace-id", metavar="ID", help="Which trace of the file, if it holds several.")
@options.option("--id", "name", metavar="ID", help="Id of the case (default: that of the trace).")
@options.option("--calls", metavar="FILE", help="Add its tool calls and their results to this file (.jsonl).")
@options.store
@options.option("--yes", is_flag=True, help="Add it without asking.")
def from_(
    trace: str,
    *,
    suite: str | None,
    trace_id: str | None,
    name: str | None,
    calls: str | None,
    store: str,
    yes: bool,
) -> None:
    """Make a case of TRACE: a file or folder of traces, or the id of a trace that `trivium serve` received.

    The case has what was asked, with the earlier messages of the conversation, and where it comes from. What
    the agent answered and did stands in comments; what is expected, a person says. Secrets are masked. With
    --suite it shows how the file would change, and asks; without a terminal it only shows, unless --yes is
    given. --calls keeps what its tools returned, with which the mocks of a world answer.
    """
    from trivium.agents.recorded.new_case import case_of_trace
    from trivium.suites.files.new_case import add_case, add_line, yaml_of_case
    from trivium.suites.suite import Suite

    made = case_of_trace(_found(trace, trace_id, store), id=name)
    if made.masked:
        click.echo(f"masked: secrets in {made.masked} {'text' if made.masked == 1 else 'texts'}", err=True)
    changes = [] if calls is None or made.calls is None else [add_line(calls, made.calls)]
    if calls is not None and made.calls is None:
        click.echo("The trace has no calls of tools.", err=True)
    if suite is None:
        click.echo(yaml_of_case(made.case, made.remarks), nl=False)
        click.echo("Nothing is written: --suite FILE adds the case to a suite.", err=True)
        return
    if Suite.load(suite).position(made.case["id"]) is not None:
        where = Problem("", f'it has a case "{made.case["id"]}" already: name another by --id')
        raise SuiteError(suite, where)
    changes.insert(0, add_case(suite, made.case, made.remarks))
    for change in changes:
        click.echo(change.diff(), nl=False)
    files = " and ".join(str(change.path) for change in changes)
    if not yes and not (sys.stdin.isatty() and click.confirm(f"Write {files}?", err=True)):
        if not sys.stdin.isatty():
            click.echo("Nothing is written: add --yes to write it.", err=True)
        return
    for change in changes:
        change.write()
    click.echo(f"written: {files}", err=True)


def _found(trace: str, trace_id: str | None, store: str) -> "Recorded":
    """The trace of a file, or one that was received."""
    from trivium.agents.recorded.new_case import find_trace
    from trivium.monitor.interaction import received_trace
    from trivium.store.store import Store

    if is_remote(trace) or Path(trace).exists():
        return find_trace(trace, trace_id=trace_id)
    try:
        with Store(store, create=False, read_only=True) as opened:
            found = received_trace(opened, trace)
    except StoreError as error:
        raise TraceError(trace, f"there is no such file, nor a store with traces: {error}") from error
    if found is None:
        raise TraceError(trace, f"there is no such file, and no trace with this id in {store}")
    return found
