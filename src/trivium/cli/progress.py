"""The progress bar of a run, on standard error, and only in a terminal."""

import sys
from typing import Any


class ProgressBar:
    """Shows attempts done, rate, time left and failures; says nothing when it is no terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._bar: Any = None
        self._failed = 0
        self.run: str | None = None
        self.done = 0

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        """A run begins."""
        self.run = run
        self.done = already
        if not self._shown:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[failed]}", style="red"),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(run, total=total, completed=already, rate="", failed="")

    def advance(self, *, done: int, failed: int) -> None:
        """So many more attempts are stored."""
        self.done += done
        self._failed += failed
        if self._bar is None:
            return
        self._bar.advance(self._task, done)
        speed = self._bar.tasks[self._task].speed
        self._bar.update(
            self._task,
            rate=f"{speed:,.1f}/s" if speed else "",
            failed=f"{self._failed:,} failed" if self._failed else "",
        )

    def end(self) -> None:
        """The run ended."""
        if self._bar is not None:
            self._bar.stop()
