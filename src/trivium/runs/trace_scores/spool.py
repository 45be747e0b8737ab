"""Keeps the traces to score in temporary files, so that memory stays bounded however many there are."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import msgspec

from trivium.agents.attempt import Attempt, Usage
from trivium.agents.recorded import Carried
from trivium.agents.recorded.traces import attempt_of_trace
from trivium.agents.response import masked
from trivium.errors import Problem, TraceError
from trivium.records.lines import JsonLines
from trivium.runs.trace_scores.selection import Selection
from trivium.runs.trace_scores.totals import TraceTotals
from trivium.suites.case import Case
from trivium.suites.files.jsonl import CaseFiles
from trivium.traces.native import native_trace
from trivium.traces.outcome import asked_in, tags_of, thread_of
from trivium.traces.readers import FORMATS
from trivium.traces.readers.collection import LocatedTrace, TraceFiles
from trivium.traces.trace import Trace

IN_MEMORY = "memory"
"""Stands for the file of a trace that was given as an object."""

_AT_ONCE = 1 << 20


@contextmanager
def spooled(
    sources: Sequence[Any],
    *,
    format: str | None,  # noqa: A002
    selection: Selection,
    limit: int,
    joined: Callable[[Iterable[LocatedTrace]], Iterable[LocatedTrace]] = iter,
) -> "Iterator[Spool]":
    """Keep the selected traces in a temporary folder.

    Args:
        sources: Files, folders and Trace objects.
        format: Format of all files; detected for each if None.
        selection: Which traces are wanted.
        limit: Largest output in bytes.
        joined: Joins traces, such as those of one conversation, before they are selected.

    Raises:
        TraceError: If no trace can be read, or none is selected.
    """
    paths = [source for source in sources if not isinstance(source, Trace)]
    files = TraceFiles(paths, format=format)
    objects = (
        LocatedTrace(native_trace(source), IN_MEMORY, "native")
        for source in sources
        if isinstance(source, Trace)
    )
    located = joined(chain(objects, files))
    with TemporaryDirectory(prefix="trivium-traces-") as folder:
        wanted = (each for each in located if selection.wants(each.trace))
        spool = Spool(Path(folder), files, wanted, name=", ".join(map(str, paths)), limit=limit)
        if not len(spool):
            raise _nothing(spool, selection)
        yield spool


class _Written(JsonLines):
    """Lines that this process has written, of any length."""

    def records(self, file: IO[bytes], start: int, number: int) -> Iterator[tuple[int, int, bytes]]:
        for at, line in enumerate(file, number):
            yield start, at, line
            start += len(line)


class Spool(Carried):
    """Traces as cases and attempts, in files of a folder; see ``Carried``.

    A trace is a case of its own: its id is the trace's id, its input the trace's input (of a conversation the
    messages before the last answer), its tags the trace's tags, and its group the conversation that the trace
    belongs to.

    Attributes:
        totals: Figures by agent, tool and model.
        files: What was read of the files, and what could not be read.
        renamed: Traces without an id, or with one that was taken.
        name: What the attempts are called in the run.
        cases: The cases, read when they are used.

    Args:
        folder: The folder.
        files: What the traces are read from.
        located: The traces.
        name: Their files, by name; empty for traces in memory.
        limit: Largest output in bytes.
    """

    def __init__(
        self, folder: Path, files: TraceFiles, located: Iterable[LocatedTrace], *, name: str, limit: int
    ) -> None:
        self.files, self.name = files, name or "traces in memory"
        self.totals = TraceTotals()
        self.renamed = 0
        names: set[str] = set()
        encode = msgspec.json.Encoder().encode
        of_cases, of_attempts = folder / "cases.jsonl", folder / "attempts.jsonl"
        with (
            of_cases.open("wb", buffering=_AT_ONCE) as cases,
            of_attempts.open("wb", buffering=_AT_ONCE) as attempts,
        ):
            for each in located:
                case, attempt = self._taken(each, self._unique(each, names), limit)
                cases.writelines((encode(case), b"\n"))
                attempts.writelines((encode(attempt), b"\n"))
        self.cases = CaseFiles([of_cases])
        self._attempts = _Written(of_attempts, error=TraceError)
        deque(self._attempts.scan(keep=True), maxlen=0)

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Each attempt with its case."""
        return self.read(range(len(self)))

    def _taken(self, located: LocatedTrace, id_: str, limit: int) -> tuple[Case, Attempt]:
        """Count a trace; return it as a case and an attempt."""
        attempt = attempt_of_trace(located.trace, case=id_, limit=limit)
        trace = masked(attempt).trace or located.trace
        cost = self.totals.add(trace, case=id_, file=located.file)
        if cost is not None:
            usage = msgspec.structs.replace(attempt.usage or Usage(), cost_usd=cost)
            attempt = msgspec.structs.replace(attempt, usage=usage)
        question = asked_in(trace)
        case = Case(
            id=id_,
            input="" if question is None else question,
            tags=tags_of(trace),
            group=thread_of(trace),
            metadata={"file": located.file, "format": located.format},
        )
        return case, attempt

    def _unique(self, located: LocatedTrace, names: set[str]) -> str:
        """The id of a trace; if it has none or it is taken, one with its file."""
        own = located.trace.trace_id.strip()
        name = own
        if not own or own in names:
            self.renamed += 1
            base = f"{own} ({located.file})" if own else Path(located.file).name
            number, name = 1, base
            while name in names:
                number += 1
                name = f"{base} #{number}"
        names.add(name)
        return name

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices of bounded number and size; see ``Partitioned``."""
        return self._attempts.parts()

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a range of indices; see ``Partitioned``."""
        decode = msgspec.json.Decoder(Attempt).decode
        for index, (_, line) in zip(part, self._attempts.rows(part), strict=True):
            yield self.cases[index], decode(line)

    def rows(self, part: range) -> Iterator[tuple[int, str, str]]:
        """Yield the attempts of a range of indices, encoded; see ``Carried``."""
        encode = msgspec.json.Encoder().encode
        for index, (_, line) in zip(part, self._attempts.rows(part), strict=True):
            yield index, encode(self.cases[index]).decode(), line.decode()


def _nothing(spool: Spool, selection: Selection) -> TraceError:
    """Why there is no trace to score."""
    files = spool.files
    if selection.left_out:
        return TraceError("", selection.problems())
    if files.problems:
        shown = files.problems[:20]
        return TraceError("", shown, left_out=files.unreadable - len(shown))
    if files.without_traces:
        number = len(files.without_traces)
        what = (
            f"none of its {number:,} files holds a trace of a known format (first: "
            f"{files.without_traces[0]}; formats: {', '.join(FORMATS)})"
        )
        return TraceError(spool.name, what)
    return TraceError(spool.name, Problem("", "there is no trace in it"))
