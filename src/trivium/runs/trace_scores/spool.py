"""Keeps the traces to score in temporary files, so that memory stays bounded however many there are."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from trivium.agents.attempt import Attempt, Usage
from trivium.agents.recorded import Carried
from trivium.agents.recorded.traces import attempt_of_trace
from trivium.agents.response import masked
from trivium.errors import Problem, TraceError
from trivium.records.lines import parts_of
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


class Spool(Carried):
    """The selected traces as cases and attempts, in temporary files; a context manager; see ``Carried``.

    A trace is a case of its own: its id is the trace's id, its input the trace's input (of a conversation the
    messages before the last answer), its tags the trace's tags, and its group the conversation that the trace
    belongs to.

    Attributes:
        totals: Figures by agent, tool and model.
        files: What was read of the files, and what could not be read.
        renamed: Traces without an id, or with one that was taken.
        name: What the attempts are called in the run.

    Args:
        sources: Files, folders and Trace objects.
        format: Format of all files; detected for each if None.
        selection: Which traces are wanted.
        limit: Largest output in bytes.
        joined: Joins traces, such as those of one conversation, before they are selected.
    """

    def __init__(
        self,
        sources: Sequence[Any],
        *,
        format: str | None,  # noqa: A002
        selection: Selection,
        limit: int,
        joined: Callable[[Iterable[LocatedTrace]], Iterable[LocatedTrace]] = iter,
    ) -> None:
        self._joined = joined
        self._objects = [source for source in sources if isinstance(source, Trace)]
        paths = [source for source in sources if not isinstance(source, Trace)]
        self.files = TraceFiles(paths, format=format)
        self.name = ", ".join(str(path) for path in paths) or "traces in memory"
        self._selection = selection
        self._limit = limit
        self.totals = TraceTotals()
        self.renamed = 0
        self._starts = array("Q")

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="trivium-traces-")
        try:
            self._fill(Path(self._folder.name))
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    @cached_property
    def cases(self) -> CaseFiles:
        """The cases, read when they are used."""
        return CaseFiles([Path(self._folder.name) / "cases.jsonl"])

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Each attempt with its case."""
        return self.read(range(len(self)))

    def _located(self) -> Iterable[LocatedTrace]:
        objects = (LocatedTrace(native_trace(trace), IN_MEMORY, "native") for trace in self._objects)
        return self._joined(chain(objects, self.files))

    def _fill(self, folder: Path) -> None:
        names: set[str] = set()
        encoder = msgspec.json.Encoder()
        with (
            (folder / "cases.jsonl").open("wb", buffering=_AT_ONCE) as cases,
            (folder / "attempts.jsonl").open("wb", buffering=_AT_ONCE) as attempts,
        ):
            for located in self._located():
                if self._selection.wants(located.trace):
                    self._write(located, names, encoder, cases, attempts)
        if not self._starts:
            raise self._nothing()

    def _write(
        self,
        located: LocatedTrace,
        names: set[str],
        encoder: msgspec.json.Encoder,
        cases: IO[bytes],
        attempts: IO[bytes],
    ) -> None:
        id_ = self._unique(located, names)
        attempt = attempt_of_trace(located.trace, case=id_, limit=self._limit)
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
        self._starts.append(attempts.tell())
        for record, file in ((case, cases), (attempt, attempts)):
            file.write(encoder.encode(record))
            file.write(b"\n")

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

    def _nothing(self) -> TraceError:
        files = self.files
        if self._selection.left_out:
            return TraceError("", self._selection.problems())
        if files.problems:
            shown = files.problems[:20]
            return TraceError("", shown, left_out=files.unreadable - len(shown))
        if files.without_traces:
            number = len(files.without_traces)
            what = (
                f"none of its {number:,} files holds a trace of a known format (first: "
                f"{files.without_traces[0]}; formats: {', '.join(FORMATS)})"
            )
            return TraceError(self.name, what)
        return TraceError(self.name, Problem("", "there is no trace in it"))

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices of bounded number and size; see ``Partitioned``."""
        return parts_of(self._starts)

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a range of indices; see ``Partitioned``."""
        decode = msgspec.json.Decoder(Attempt).decode
        for index, line in zip(part, self._lines(part), strict=False):
            yield self.cases[index], decode(line)

    def rows(self, part: range) -> Iterator[tuple[int, str, str]]:
        """Yield the attempts of a range of indices, encoded; see ``Carried``."""
        encode = msgspec.json.Encoder().encode
        for index, line in zip(part, self._lines(part), strict=False):
            yield index, encode(self.cases[index]).decode(), line.decode()

    def _lines(self, part: range) -> Iterator[bytes]:
        with (Path(self._folder.name) / "attempts.jsonl").open("rb", buffering=_AT_ONCE) as file:
            file.seek(self._starts[part.start] if part else 0)
            yield from file
