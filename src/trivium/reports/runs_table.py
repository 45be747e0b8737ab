"""Table of stored runs for the terminal (Rich)."""

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from trivium.reports import wording
from trivium.reports.escape import one_line

RUNS_WIDE = 100
"""Width in columns from which the list of runs shows when each was started."""

PRODUCTION = "live-…: samples of production, unweighted; figures of all traffic: trivium monitor status"

STATE_STYLES = {"done": "green", "interrupted": "yellow", "running": "cyan"}


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a list of runs.

    Attributes:
        kind: agent, recorded, human, live (a monitor's samples of one day), or confirm.
        confirms: Id of the run that a run of kind confirm asks again, else None.
        started: Seconds since the UNIX epoch, or None if unknown.
        state: running, interrupted, done, …
        attempts: Attempts that are stored.
        due: Attempts that the run should have; 0 if nobody knows, as of a day of production.
        pass_rate: In [0, 1], or None.
        composite: Mean, in [0, 1], or None.
        version: The agent's version, or None if nothing tells it.
    """

    run: str
    suite: str
    started: float | None
    state: str
    attempts: int
    due: int
    pass_rate: float | None = None
    composite: float | None = None
    kind: str = "agent"
    version: str | None = None
    confirms: str | None = None


class RunsTable:
    """A Rich renderable of a list of runs, in the order given.

    Args:
        rows: The runs.
        older: Whether there are further, older runs.
    """

    def __init__(self, rows: list[RunRow], *, older: bool = False) -> None:
        self.rows = rows
        self.older = older

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.rows:
            yield Text("no runs yet", style="dim")
            return
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        table.add_column("run", no_wrap=True)
        table.add_column("suite", overflow="fold", min_width=8)
        # A run's id begins with its start time, so a narrow terminal does without the column.
        wide = options.max_width >= RUNS_WIDE
        if wide:
            table.add_column("started (UTC)", no_wrap=True)
        versions = wide and any(row.version for row in self.rows)
        if versions:
            table.add_column("version", overflow="fold", max_width=16)
        table.add_column("state", overflow="fold")
        table.add_column("attempts", justify="right", no_wrap=True)
        table.add_column("passed", justify="right", no_wrap=True)
        table.add_column("composite", justify="right", no_wrap=True)
        for row in self.rows:
            complete = row.attempts == row.due or not row.due
            table.add_row(
                Text(one_line(row.run), style="bold"),
                Text(one_line(row.suite + (f", confirms {row.confirms}" if row.confirms else ""))),
                *([Text(wording.moment(row.started))] if wide else []),
                *([Text(one_line(row.version or wording.NOTHING))] if versions else []),
                Text(one_line(row.state), style=STATE_STYLES.get(row.state, "")),
                Text(f"{row.attempts:,}" if complete else f"{row.attempts:,}/{row.due:,}"),
                Text(wording.NOTHING if row.pass_rate is None else wording.share(row.pass_rate)),
                Text(wording.number(row.composite)),
            )
        yield table
        if any(row.kind == "live" for row in self.rows):
            yield Text(PRODUCTION, style="dim")
        if self.older:
            yield Text(f"… and older ones (--limit, now {len(self.rows):,})", style="dim")
