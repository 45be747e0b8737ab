"""Prints runs and writes their reports; exit codes, progress bar, redirected standard output."""

import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from trivium.cli.options import STANDARD_OUTPUT, prints_document
from trivium.storage import writable
from trivium.values import json_document

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trivium.reports.document.blocks import Block
    from trivium.runs.disagreements import Disagreements
    from trivium.runs.run import Run
    from trivium.runs.slices import Slices
    from trivium.runs.summary import Summary


DONE, GATE_FAILED, WITH_ERRORS, INCONCLUSIVE = 0, 1, 3, 4

SECONDS_WITHOUT_BAR = 1.0
"""Resampling that ends sooner shows no progress."""

MOST_CASES = 500
"""Attempts in full in a page, unless another number is asked for."""


def exit_code(summary: "Summary") -> int:
    """Return 0 done, 1 a gate failed, 3 something due is missing or in error, 4 a gate is inconclusive."""
    answers = {gate.answer for gate in summary.gates}
    if "fail" in answers:
        return GATE_FAILED
    if summary.missing or any(summary.errors.values()):
        return WITH_ERRORS
    return INCONCLUSIVE if "inconclusive" in answers else DONE


def print_json(value: Any) -> None:
    """Print one JSON document, always in UTF-8."""
    click.echo(json_document(value), nl=False)


def print_answer(value: Any, shown: "Callable[[Any], Iterator[Block] | str]", *, as_json: bool) -> None:
    """Print a record: with ``--json`` as one document, else as the blocks or the lines that describe it."""
    if as_json:
        print_json(value)
    elif isinstance(said := shown(value), str):
        click.echo(said)
    else:
        show(said)


def stored_summary(run: "Run") -> "Summary":
    """Return the summary that was stored when the run finished."""
    from trivium.runs.summary import Summary

    return msgspec.convert(run.record.summary, Summary)


class Presentation(NamedTuple):
    """How a run is printed, and which reports are written.

    Attributes:
        as_json: Whether to print JSON instead of the table.
        quiet: Whether to print only errors and missing scores, on standard error.
        html: Where to write an HTML page.
        markdown: Where to write Markdown.
        junit: Where to write JUnit XML.
        details: Whether the table shows every reservation and the whole provenance.
        cases_shown: Largest number of attempts in full in the page.
        disagreements: Where its judges disagree; None shows the disagreements of a panel on the page.
        only_disagreements: Whether table, JSON and Markdown show the disagreements instead of the run.
        slices: Its figures by the values of some keys.
        then: The commands that come next, first.
    """

    as_json: bool = False
    quiet: bool = False
    html: Path | None = None
    markdown: Path | None = None
    junit: Path | None = None
    details: bool = False
    cases_shown: int = MOST_CASES
    disagreements: "Disagreements | None" = None
    only_disagreements: bool = False
    slices: "Sequence[Slices]" = ()
    then: tuple[str, ...] = ()

    @property
    def instead(self) -> "Disagreements | None":
        """What table, JSON and Markdown show instead of the run."""
        return self.disagreements if self.only_disagreements else None


def present(run: "Run", summary: "Summary", how: Presentation) -> None:
    """Print a run and write the requested reports."""
    if how.as_json:
        print_json(how.instead or _with_slices(summary, how.slices))
    elif not how.quiet:
        _show(run, summary, how)
    if how.quiet:
        _print_missing(summary)
    if how.html is not None:
        write_report(how.html, lambda path: _html(run, summary, path, how))
    if how.markdown is not None:
        write_report(how.markdown, [_markdown(summary, how)])
    if how.junit is not None:
        from trivium.reports.junit import junit_parts
        from trivium.reports.view import views_of

        write_report(how.junit, junit_parts(summary, views_of(run)))


def _print_missing(summary: "Summary") -> None:
    """Print one line on standard error where a quiet command ends with exit code 3."""
    if summary.missing or any(summary.errors.values()):
        from trivium.reports.wording import what_is_missing

        click.echo(what_is_missing(summary), err=True)


def _with_slices(summary: "Summary", slices: "Sequence[Slices]") -> dict[str, Any]:
    """The summary as a JSON object, with its slices by key."""
    document: dict[str, Any] = msgspec.to_builtins(summary)
    return document | ({"slices": {one.by: one.slices for one in slices}} if slices else {})


def _show(run: "Run", summary: "Summary", how: Presentation) -> None:
    if how.instead is not None:
        from trivium.reports.disagreements import describe as describe_disagreements

        show(describe_disagreements(how.instead, "terminal"))
    else:
        from trivium.reports.summary import describe

        show(describe(summary, "terminal", details=how.details, provenance=run.provenance, then=how.then))
        if how.slices:
            from trivium.reports.slices import run_slices

            click.echo()
            show(run_slices(one, "terminal") for one in how.slices)


def write_report(path: Path, content: Callable[[Path], object] | Iterable[str] | bytes) -> None:
    """Write a file, creating its folder first, and report its path on standard error.

    Args:
        path: The file; ``-`` is standard output, to which a temporary file (.svg) is copied.
        content: What to write: the parts of a text, bytes, or what writes the file that it is given.

    Raises:
        InputError: If the file cannot be written.
    """
    to_standard_output = path == STANDARD_OUTPUT
    with writable(path), TemporaryDirectory() as folder:
        target = Path(folder, "document.svg") if to_standard_output else path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            content(target) if callable(content) else write_text(target, content)
        document = target.read_bytes() if to_standard_output else b""
    if to_standard_output:
        click.echo(document, nl=False)
    else:
        click.echo(f"wrote {path}", err=True)


def write_text(path: Path, parts: Iterable[str]) -> None:
    """Write the parts of a text to a file, in UTF-8."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(parts)


def run_page(run: "Run", path: Path) -> None:
    """Write the page of a run.

    Raises:
        OSError: If it cannot be written.
    """
    _html(run, stored_summary(run), path, Presentation())


def _html(run: "Run", summary: "Summary", path: Path, how: Presentation) -> None:
    from trivium.reports.html.page import write_html
    from trivium.reports.view import views_of

    disagreements = how.disagreements
    if disagreements is None:
        panels = run.disagreements()
        disagreements = panels if panels.found else None
    write_html(
        path,
        summary,
        views_of(run, worst_first=True),
        cases_shown=how.cases_shown,
        provenance=run.provenance,
        disagreements=disagreements,
        group=run.record.settings.group,
        slices=how.slices,
    )


def _markdown(summary: "Summary", how: Presentation) -> str:
    if how.instead is not None:
        from trivium.reports.disagreements import render_markdown as render_disagreements

        return render_disagreements(how.instead)
    from trivium.reports.summary import render_markdown

    if not how.slices:
        return render_markdown(summary)
    from trivium.reports.document.markdown import markdown
    from trivium.reports.slices import run_slices

    return f"{render_markdown(summary)}\n{markdown(run_slices(one, 'comment') for one in how.slices)}"


def print_resume_hint(command: list[str], run: str | None, done: int) -> None:
    """Print how many attempts are stored and the command that resumes the run."""
    if run is None:
        return

    resume = [part for part in command if part]
    if "--resume" not in resume:
        resume = [*resume, "--resume", run]
    stored = f"{done:,} attempts are stored with their scores"
    kept = "further outputs of an agent and answers of judges are kept, too"
    click.echo(f"\nInterrupted: {stored}; {kept}. To resume:\n  {shlex.join(resume)}", err=True)


def command_line() -> list[str]:
    """Return the command as it was typed."""
    return ["trivium", *sys.argv[1:]]


class ProgressBar:
    """Shows attempts done, rate, time left and failures on a terminal; prints nothing elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self.shown = not quiet and sys.stderr.isatty()
        self._bar: Any = None
        self._failed = 0
        self.run: str | None = None
        self.done = 0

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        """Start the bar of a run."""
        self.run = run
        self.done = already
        if not self.shown:
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
        """Count further stored attempts, and those of them that failed."""
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
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def resampling_bar(total: Callable[[], int], *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how many resamples are done, once they have taken more than a second.

    Args:
        total: Returns the number of resamples; called once the bar is shown.
        quiet: Whether to show nothing.

    Yields:
        A function to call with the number of further resamples that are done.
    """
    bar, started, done, begun = ProgressBar(quiet=quiet), time.monotonic(), 0, False

    def advance(resamples: int) -> None:
        nonlocal done, begun
        done += resamples
        if begun:
            bar.advance(done=resamples, failed=0)
        elif bar.shown and time.monotonic() - started > SECONDS_WITHOUT_BAR:
            begun = True
            bar.begin(run="resampling", total=total(), already=done)

    try:
        yield advance
    finally:
        bar.end()


MIN_COLUMNS = 80
"""Columns that every table fits in. A narrower terminal wraps the lines, so no cell is cut off."""

_TRAILING_BLANKS = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)


def show(shown: "Iterator[Block] | RenderableType") -> None:
    """Print blocks, or a Rich renderable, on standard output, without trailing blanks.

    Names and outputs are text, also where they have brackets: nothing is read as Rich's markup. Nothing is
    printed where an option writes a document there.
    """
    if prints_document():
        return
    from rich.console import Console

    from trivium.reports.document.terminal import Printed

    console = Console(highlight=False, markup=False, emoji=False, legacy_windows=False)
    console.width = max(MIN_COLUMNS, console.width) if sys.stdout.isatty() else MIN_COLUMNS
    with console.capture() as captured:
        console.print(Printed(shown) if isinstance(shown, Iterator) else shown)
    sys.stdout.write(_TRAILING_BLANKS.sub(lambda end: end[0].replace(" ", ""), captured.get()))


@contextmanager
def reserved_stdout() -> Iterator[None]:
    """Redirect everything printed to standard error, also by C code and child processes.

    What agents and metrics print then stays out of standard output, which holds only the command's answer.
    """
    out, err = _descriptor(sys.stdout), _descriptor(sys.stderr)
    with redirect_stdout(sys.stderr):
        if out is None or err is None:  # closed, or replaced by a test
            yield
            return
        saved = os.dup(out)
        try:
            os.dup2(err, out)
            yield
        finally:
            os.dup2(saved, out)
            os.close(saved)


@contextmanager
def storing() -> Iterator[None]:
    """Make and store attempts: standard output is reserved, and SIGTERM is treated like Ctrl-C.

    A service manager sends SIGTERM; like Ctrl-C it ends the command once the finished attempts are stored.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with reserved_stdout():
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _descriptor(stream: IO[str] | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):
        return None
