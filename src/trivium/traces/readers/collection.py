"""Reads any number of trace files and folders, of any mix of formats, one file at a time."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trivium.errors import Problem, TraceError, suggest
from trivium.storage import path_of, paths_named
from trivium.traces.native import native_trace
from trivium.traces.native import sniff as is_native
from trivium.traces.readers import (
    FORMATS,
    RECORDED,
    RECORDED_OTEL,
    UnknownFormat,
    format_by_head,
    format_of_head,
    read_one_file,
    read_together,
    sniff_format,
)
from trivium.traces.readers.json_input import (
    MAX_BYTES,
    check_values,
    documents_of,
    first_item,
    head_of,
    is_value,
    opened,
    parse_documents,
)
from trivium.traces.trace import Trace
from trivium.values import resolved

EXTENSIONS = frozenset(
    {".json", ".jsonl", ".ndjson", ".pb", ".binpb", ".bin", ".otlp", ".db", ".sqlite", ".sqlite3"}
)
"""Extensions of the files of a folder that may hold traces; ``.gz`` may follow."""

_TEXT = frozenset({".json", ".jsonl", ".ndjson"})
_DATABASES = frozenset({".db", ".sqlite", ".sqlite3"})
"""Any tool's database, such as Trivium's own store: one in a folder that is not read is no error."""

MOST_BYTES_TOGETHER = 128 * 2**20
"""OTLP files of a folder are read together up to this size, because a trace may be split over files."""

MOST_NAMED = 1_000
"""Most problems, and most files without traces, that are kept; further ones are only counted."""


@resolved
class LocatedTrace(NamedTuple):
    """A trace, the file (or folder) that holds it, and the format of that."""

    trace: Trace
    file: str
    format: str


class _Unit(NamedTuple):
    """Files that are read together; ``named`` if the user named the file, rather than its folder."""

    paths: tuple[Path, ...]
    format: str | None = None
    named: bool = False


class TraceFiles:
    """The traces of files and folders, in the order of the paths; folders are searched, sorted by name.

    A file that cannot be read does not stop the others: it is listed in ``problems``, as is a broken line of
    a file with one native trace on each line. A file of a folder that is no trace of a known format, such as
    a settings file, is listed in ``without_traces``; hidden files and folders are ignored. Iterating reads
    one file at a time (OTLP files of a folder together, up to ``MOST_BYTES_TOGETHER``; native traces one per
    line one at a time) and fills the counts; iterate once.

    Attributes:
        formats: Number of traces by format.
        files: Number of files read.
        problems: The file, and why it (or a line of it) cannot be read.
        without_traces: Files of folders that hold no trace of a known format.

    Args:
        paths: Files and folders; addresses may be patterns.
        format: Format of all files; detected for each if None.

    Raises:
        InputError: If an address cannot be reached, or a pattern matches no file.
        TraceError: If a path does not exist.
    """

    def __init__(self, paths: Sequence[str | Path], *, format: str | None = None) -> None:  # noqa: A002
        self._paths = paths_named(paths)
        self._format = format
        self.formats: Counter[str] = Counter()
        self.files = 0
        self.problems: list[Problem] = []
        self.unreadable = 0
        self.without_traces: list[str] = []
        missing = [Problem(str(path), _missing(path)) for path in self._paths if not path.exists()]
        if missing:
            raise TraceError("", missing)

    def __iter__(self) -> Iterator[LocatedTrace]:
        for path in self._paths:
            units = _units_of_folder(path) if path.is_dir() else [_Unit((path,), named=True)]
            for unit in units:
                yield from self._read(unit)

    def _read(self, unit: _Unit) -> Iterator[LocatedTrace]:
        path = unit.paths[0]
        source = str(path) if len(unit.paths) == 1 else str(path.parent)
        try:
            for name, trace in self._traces(unit):
                self.formats[name] += 1
                yield LocatedTrace(trace, source, name)
            self.files += len(unit.paths)
        except UnknownFormat as error:
            if unit.named:
                self._report(error, source)
            else:
                self._without_traces(path)
        except TraceError as error:
            if not unit.named and (_extension(path) in _DATABASES or not _may_hold_traces(path)):
                self._without_traces(path)
            else:
                self._report(error, source)

    def _traces(self, unit: _Unit) -> Iterator[tuple[str, Trace]]:
        path, name = unit.paths[0], unit.format or self._format
        if len(unit.paths) > 1 or (name == "recorded" and not unit.named):
            name = name or "otlp"
            yield from ((name, trace) for trace in read_together(unit.paths, name))
            return
        head = head_of(path)
        name = name or format_of_head(path, head)
        if name in {None, "native"} and _has_lines(path):
            yield from (("native", trace) for trace in self._native_lines(path))
        else:
            read_as, traces = read_one_file(path, name, head=head)
            yield from ((read_as, trace) for trace in traces)

    def _native_lines(self, path: Path) -> Iterator[Trace]:
        """The traces of a file with one native trace on each line; a broken line is a problem."""
        source = str(path)
        with opened(path) as file:
            number = 0
            while line := file.readline(MAX_BYTES):
                number += 1
                if not line.strip():
                    continue
                try:
                    yield _native(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line, number, source)
                except TraceError as error:
                    self._report(error, source)

    def _report(self, error: TraceError, source: str) -> None:
        self.unreadable += 1
        if len(self.problems) < MOST_NAMED:
            first = error.problems[0]
            more = len(error.problems) - 1 + error.left_out
            what = f"{first.where}: {first.what}" if first.where else first.what
            self.problems.append(Problem(source, f"{what} (and {more:,} more)" if more else what))

    def _without_traces(self, path: Path) -> None:
        of_a_run = (path.parent / "trace.json").exists()  # its scores and settings, beside its trace
        if not of_a_run and len(self.without_traces) < MOST_NAMED:
            self.without_traces.append(str(path))


def read_trace_file(path: str | Path, format: str | None = None) -> list[Trace]:  # noqa: A002
    """Every trace of a file or a folder, normalised.

    Args:
        path: A file of any format, or a folder of them; may be an address.
        format: One of ``FORMATS``; detected if None.

    Raises:
        InputError: If an address cannot be reached.
        TraceError: If it cannot be read, is too large or has no known format.
    """
    return read_path(path, format)[1]


def read_path(path: str | Path, format: str | None = None) -> tuple[str, list[Trace]]:  # noqa: A002
    """As :func:`read_trace_file`, with the format; that of a folder is the format of its first file."""
    path = path_of(path)
    if not path.is_dir():
        return read_one_file(path, format)
    files = TraceFiles([path])
    traces = [located.trace for located in files]
    if files.problems or not traces:
        raise TraceError("", files.problems or [Problem(str(path), "holds no trace, or its files are empty")])
    return next(iter(files.formats)), traces


def read_paths(paths: Sequence[str | Path], format: str | None = None) -> tuple[str, list[Trace]]:  # noqa: A002
    """The format and the traces of several files of one format. Addresses may be patterns.

    Raises:
        InputError: If an address cannot be reached, or a pattern matches no file.
        TraceError: If one cannot be read, or has another format than the first.
    """
    paths = paths_named(paths)
    if len(paths) == 1:
        return read_path(paths[0], format)
    names = [format or _format_of(path) for path in paths]
    for path, name in zip(paths, names, strict=True):
        if name != names[0]:
            raise TraceError(str(path), f"is of format {name}, and the first file of format {names[0]}")
    if any(path.is_dir() for path in paths):
        return names[0], [trace for path in paths for trace in read_trace_file(path, names[0])]
    return names[0], read_together(paths, names[0])


def _format_of(path: Path) -> str:
    if path.is_dir():
        return read_path(path)[0]
    return format_by_head(path) or sniff_format(documents_of(path), source=str(path))


def format_problem(name: str) -> str | None:
    """What is wrong with the name of a format; None if there is such a format."""
    return None if name in FORMATS else f'no trace format is called "{name}". Known: {", ".join(FORMATS)}'


def _missing(path: Path) -> str:
    try:
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    except OSError:
        siblings = []
    return f"there is no such file or folder.{suggest(path.name, siblings)}"


def _units_of_folder(folder: Path) -> Iterator[_Unit]:
    """Yield the files of a folder, together if a trace may be split over several of them."""
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise TraceError(str(folder), f"cannot be read: {error.strerror or error}") from error
    files = [entry for entry in entries if entry.is_file() and _extension(entry) in EXTENSIONS]
    files = [entry for entry in files if entry.stat().st_size]  # its process may not have written yet
    recorded = [entry for entry in files if entry.name.endswith(RECORDED)]
    if recorded:
        recorded += [entry for entry in files if entry.name.endswith(RECORDED_OTEL)]
        yield _Unit(tuple(recorded), "recorded")
    together: list[Path] = []
    size = 0
    for file in files:
        if file in recorded:
            continue
        if _head_format(file) != "otlp":
            yield _Unit((file,))
            continue
        if together and size + file.stat().st_size > MOST_BYTES_TOGETHER:
            yield _Unit(tuple(together), "otlp")
            together, size = [], 0
        together.append(file)
        size += file.stat().st_size
    if together:
        yield _Unit(tuple(together), "otlp")
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            yield from _units_of_folder(entry)


def _head_format(path: Path) -> str | None:
    try:
        return format_by_head(path)
    except TraceError:  # reported when the file is read
        return None


def _may_hold_traces(path: Path) -> bool:
    return _extension(path) in _TEXT or _head_format(path) is not None


def _extension(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def trace_format(path: Path, *, unless_key: str) -> str | None:
    """The trace format of a file by its beginning; None if it is another file, or cannot be read.

    Args:
        path: The file.
        unless_key: An object with this key is no trace, whatever else it holds.
    """
    first = first_item(first_value(path))
    if isinstance(first, dict) and unless_key in first:
        return None
    try:
        return format_by_head(path) or sniff_format([first], source="")
    except TraceError:
        return None


def first_value(path: Path) -> Any:
    """The JSON value of a file's first line, else of the whole file; None if it is no JSON."""
    try:
        with opened(path) as file:
            line = file.readline(MAX_BYTES)
            text = line if is_value(line) else line + file.read(MOST_BYTES_TOGETHER)  # JSON of many lines
        return parse_documents(text, source="")[0]
    except TraceError:
        return None


def _has_lines(path: Path) -> bool:
    """Whether a file starts with a line that is a native trace by itself."""
    with opened(path) as file:
        line = file.readline(MAX_BYTES)
    if not line.rstrip().endswith(b"}"):
        return False
    try:
        documents = parse_documents(line, source="")
        return is_native(documents[0]) and sniff_format(documents, source="") == "native"
    except TraceError:
        return False


def _native(line: bytes, number: int, source: str) -> Trace:
    check_values(line, source=source, where=f"line {number}")
    return native_trace(line, source=source, where=f"line {number}")
