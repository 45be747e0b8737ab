"""``trivium run --watch``: runs again whenever the suite, the agent or a file that it reads changes.

Every run is a separate process, so that changed code is imported afresh. It reports which files below the
current folder it read; a change of one of them starts the next run. Where only files of the suite changed,
the stored attempts are scored again and no agent is called; judges answer what they judged before from the
cache.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec

POLL_SECONDS = 0.3
_OWN_FOLDERS = frozenset({".trivium", ".git", "__pycache__", "site-packages"})

Stamp = tuple[int, int]
"""Time of the last change of a file (ns) and its size."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result that a run reports to the watching process.

    Attributes:
        code: Its exit code.
        run: Id of the stored run; None if none was made.
        suite_files: Files read until the suite was loaded.
        other_files: Files read afterwards: the agent's modules, prompts and data.
        stamps: The stamp of each file when it was first read.
    """

    code: int
    run: str | None
    suite_files: frozenset[str]
    other_files: frozenset[str]
    stamps: dict[str, Stamp | None]


class ReadFiles:
    """Records the files below the current folder that this process reads and does not write.

    It cannot see what other programs read; for a program that is started, it records the program's file and
    the files on its command line.
    """

    def __init__(self) -> None:
        self._home = Path.cwd()
        self._read: dict[str, Stamp | None] = {}
        self._written: set[str] = set()
        sys.addaudithook(self._record)

    def _record(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str):
            path, mode, flags = arguments
            reads = mode == "r" if isinstance(mode, str) else not flags & (os.O_WRONLY | os.O_RDWR)
            if not (reads or mode == "rb"):
                self._written.add(path)
            elif path not in self._read:
                self._read[path] = stamp(path)
        elif event == "subprocess.Popen":
            words = {word for word in arguments[1] if isinstance(word, str) and "\0" not in word}
            named = {word: stamp(word) for word in words - self._read.keys()}
            self._read |= {path: known for path, known in named.items() if known is not None}

    @property
    def stamps(self) -> dict[str, Stamp | None]:
        """The stamp of each file when it was first read."""
        return {str(self._home / path): known for path, known in self._read.items()}

    def all(self) -> frozenset[str]:
        """Every such file so far, and the source of every module imported."""
        modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        written = {self._home / path for path in self._written}
        paths = {self._home / path for path in [*self._read, *filter(None, modules)]} - written
        return frozenset(
            str(path)
            for path in paths
            if path.is_relative_to(self._home)
            and not _OWN_FOLDERS & set(path.relative_to(self._home).parts)
            and path.is_file()
        )


class Watched(Protocol):
    """A run that may be repeated; it is called in a separate process, so it must be picklable."""

    def __call__(self, previous: str | None, loaded: Callable[[], None]) -> tuple[int, str | None]:
        """Run once.

        Args:
            previous: Id of a stored run whose attempts may be scored again, or None.
            loaded: To be called when the suite is loaded.

        Returns:
            The exit code, and the id of the stored run if there is one.
        """


def watch(run: Watched, compare: Callable[[str, str], object]) -> int:
    """Run, wait for a change of a file that the run read, run again and compare, until interrupted.

    Args:
        run: One run.
        compare: Prints the comparison of the run before (its id) with a run.

    Returns:
        The exit code of the last run.
    """
    suite_files: frozenset[str] = frozenset()
    other_files: frozenset[str] = frozenset()
    previous: str | None = None
    changed: frozenset[str] = frozenset()
    code = 0
    try:
        while True:
            before = stamps(suite_files | other_files)
            again = previous if changed and changed <= suite_files - other_files else None
            report = _run_in_process(run, again)
            code = report.code
            if report.run is not None and previous is not None:
                click.echo()
                compare(previous, report.run)
            previous = report.run or previous
            # A run that failed early read fewer files: what earlier runs read stays watched.
            suite_files |= report.suite_files
            other_files |= report.other_files
            files = suite_files | other_files
            if not files:
                return code
            known = stamps(files) | before | report.stamps
            click.echo(f"Watching {len(files):,} files. Ctrl-C ends.", err=True)
            changed = wait_for_change(files, known)
            names = sorted(os.path.relpath(path) for path in changed)
            click.echo(f"\nChanged: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}", err=True)
    except KeyboardInterrupt:
        return code


def stamps(files: Iterable[str]) -> dict[str, Stamp | None]:
    """Return the stamp of each file; None for a missing one."""
    return {path: stamp(path) for path in files}


def stamp(path: str) -> Stamp | None:
    """Return the stamp of a file; None for a missing one."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def wait_for_change(
    files: Iterable[str], known: Mapping[str, Stamp | None], *, stop: threading.Event | None = None
) -> frozenset[str]:
    """Wait until a file differs from its known stamp, and no file changes any more.

    Args:
        files: The files.
        known: Their stamps before.
        stop: Ends the waiting when set.

    Returns:
        The files that changed.
    """
    stop = stop or threading.Event()
    latest = dict(known)
    while True:
        now = stamps(files)
        if now == latest and (changed := frozenset(path for path in now if now[path] != known.get(path))):
            return changed
        latest = now
        if stop.wait(POLL_SECONDS):
            return frozenset()


def _run_in_process(run: Watched, previous: str | None) -> Report:
    """Run in a new process, which prints for itself."""
    context = get_context("spawn")
    reports, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(run, previous, sender))
    process.start()
    sender.close()
    try:
        report: Report | None = reports.recv()  # before the end of the process: it may wait until it is read
    except EOFError:  # killed
        report = None
    process.join()
    if report is None:
        nothing: frozenset[str] = frozenset()
        code = process.exitcode or 2
        return Report(code=code, run=None, suite_files=nothing, other_files=nothing, stamps={})
    return report


def _child(run: Watched, previous: str | None, reports: Connection) -> None:
    """The body of the process: one run, reported to the watching process."""
    files = ReadFiles()
    suite_files: frozenset[str] = frozenset()

    def loaded() -> None:
        nonlocal suite_files
        suite_files = files.all()

    code, stored = run(previous, loaded)
    if not suite_files:
        loaded()
    everything = files.all()
    reports.send(
        Report(
            code=code,
            run=stored,
            suite_files=suite_files,
            other_files=everything - suite_files,
            stamps={path: known for path, known in files.stamps.items() if path in everything},
        )
    )
