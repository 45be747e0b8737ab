"""Writes spans to rotating JSONL files, one file for each process, as the spans end."""

import errno
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import gmtime, monotonic, strftime
from typing import Any

import msgspec

from trivium.processes import after_fork
from trivium.traces.recording.config import Recording
from trivium.traces.recording.span import Content, LiveSpan, ParentSpan, write_open_parents
from trivium.traces.trace import RecordedLine

log = logging.getLogger(__name__)

SECONDS_BETWEEN_TRIES = 10.0
"""Pause before the next write after one failed."""


_ENCODE = msgspec.json.Encoder().encode


class RotatingFile:
    """Appends lines to a file, each with one system call, so that a killed process leaves whole lines.

    Args:
        recording: The folder, and the size from which a new file is started.
        kind: Part of the names of the files.
    """

    def __init__(self, recording: Recording, kind: str) -> None:
        self._recording = recording
        self._kind = kind
        self._lock = threading.Lock()
        self._file: int | None = None
        self._written = 0
        self._count = 0
        self._not_before = 0.0
        after_fork(self._forget)

    def write(self, line: bytes) -> None:
        """Append a line. Disk errors are logged, never raised in the agent."""
        with self._lock:
            if self._not_before and monotonic() < self._not_before:
                return
            try:
                self._append(line + b"\n")
            except OSError as error:
                self._not_before = monotonic() + SECONDS_BETWEEN_TRIES
                self._close()
                log.warning(
                    "a trace cannot be written to %s: %s; next attempt in %.0f s",
                    self._recording.folder,
                    error.strerror,
                    SECONDS_BETWEEN_TRIES,
                )

    def _append(self, line: bytes) -> None:
        if self._file is None or self._written + len(line) > self._recording.rotate_bytes:
            self._close()
            self._file = self._opened()
            self._written = 0
        written = os.write(self._file, line)
        if written < len(line):
            os.ftruncate(self._file, self._written)  # a file holds whole lines
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._written += written

    def _opened(self) -> int:
        folder = self._recording.folder or Path()
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            self._count += 1
            moment = strftime("%Y%m%dT%H%M%SZ", gmtime())
            name = f"{moment}-{os.getpid()}-{self._count:04}.{self._kind}.jsonl"
            try:
                # Readable by this user only: inputs and outputs of agents may be confidential.
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
                return os.open(folder / name, flags, 0o600)
            except FileExistsError:
                continue

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _forget(self) -> None:
        """Start anew in a forked process, which writes its own file; no thread there holds the lock."""
        self._lock = threading.Lock()
        if self._file is not None:
            os.close(self._file)
        self._file = None


class FileSink:
    """Writes every span as it ends.

    Args:
        recording: The recording settings.
        kind: Part of the names of the files.
    """

    def __init__(self, recording: Recording, kind: str = "spans") -> None:
        self.recording = recording
        self.content = Content(recording.patterns) if recording.content else None
        self._file = RotatingFile(recording, kind)

    def started(self, span: LiveSpan) -> None:
        """Do nothing: a span is written when it, or a child of it, ends."""

    def ended(self, span: LiveSpan) -> None:
        """Write the span, after its parents that are still open."""
        write_open_parents(span.parent)
        span.is_written = True
        self.write(span)

    def message_sent(self, message: RecordedLine, span: ParentSpan | None) -> None:
        """Write the message."""
        write_open_parents(span)
        self.append(lambda: message)

    def write(self, span: LiveSpan) -> None:
        """Write the span as it is."""
        self.append(span.line)

    def append(self, make: Callable[[], Any]) -> None:
        """Write what a function makes as one line of JSON; what it raises is logged."""
        try:
            encoded = _ENCODE(make())
        except Exception as error:  # recording must not fail an agent
            log.warning("a span cannot be written: %s", error)
            return
        self._file.write(encoded)
