"""Reads recorded outputs as attempts (docs/definitions/files.md#outputs)."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.columns import OutputColumns, output_columns_of
from trivium.agents.recorded.record import (
    Output,
    attempt_from,
    duplicate_of,
    message_problems,
    no_such_case,
    trace_problems,
)
from trivium.errors import OutputsError, Problem, Problems
from trivium.number_buffer import NumberBuffer, SpillFile, joined, repeated
from trivium.records.documents import read_document
from trivium.records.lines import JsonLines
from trivium.records.source import TABLES, Listed, Records, files_of, is_pattern, open_records, rows_of_table
from trivium.records.validation import describe
from trivium.suites.case import Case
from trivium.suites.suite import Suite
from trivium.traces.readers.collection import first_value


def open_outputs(path: Path, *, spill: SpillFile | None = None) -> Records:
    """Open a file of outputs; one with an unknown suffix has a line of JSON for each.

    Raises:
        OutputsError: If it is missing, or is not what its suffix says.
        MissingExtra: If PyArrow is not installed, and the file needs it.
    """
    records = open_records(path, error=OutputsError, spill=spill, other=JsonLines)
    if path.suffix.lower() == ".json" and next(records.scan(), (1, b""))[1].lstrip().startswith(b"["):
        return Listed(read_document(path, error=OutputsError), path=path)
    return records


def listed_outputs(outputs: Any) -> Listed:
    """Outputs in memory: a list of mappings or Attempts, a data frame of pandas or polars, or an Arrow table.

    Raises:
        OutputsError: If it is none of these.
    """
    rows = rows_of_table(outputs)
    if rows is None:
        if not isinstance(outputs, Iterable) or isinstance(outputs, Mapping | bytes | bytearray):
            expected = "expected a file, a prefixed source, a list of mappings or a data frame"
            raise OutputsError("outputs", f"found {describe(outputs)}, {expected}")
        rows = list(outputs)
    return Listed(rows, places="outputs[{}]")


def files_of_outputs(source: str) -> list[Path] | None:
    """The files that a folder of outputs or a pattern names, sorted; None if the source is neither.

    Raises:
        OutputsError: If a pattern matches no file.
    """
    files = files_of(source, error=OutputsError)
    return files if files and (is_pattern(source) or _hold_outputs(files)) else None


def _hold_outputs(files: Sequence[Path]) -> bool:
    """Whether files of a folder hold outputs rather than traces: what the first says that is not damaged."""
    lines = [each for each in files if each.suffix.lower() not in TABLES]
    found = next((each for each in map(first_value, lines) if isinstance(each, dict)), None)
    return len(lines) < len(files) if found is None else "case" in found


MOST_IN_A_NOTE = 3
"""Most mistakes that the note of a run lists."""


class Mistakes(Problems):
    """The mistakes of one source of outputs.

    Args:
        source: The file; empty for several files or a list in memory.
        skip: Whether outputs with mistakes are left out; :meth:`settle` raises an error otherwise.

    Attributes:
        left_out: Indices of the outputs of this source that are left out.
        outputs: Number of outputs with mistakes, also in other files (:meth:`include`).
        files: Number of files that are left out as a whole.
    """

    def __init__(self, source: str = "", *, skip: bool = False) -> None:
        super().__init__(source, OutputsError)
        self.left_out: set[int] = set()
        self.outputs = 0
        self.files = 0
        self._skip = skip

    def add_output(self, index: int, problems: Sequence[Problem]) -> None:
        """Note the mistakes of an output, if it has any."""
        if problems:
            if self._skip:
                self.left_out.add(index)
            self.outputs += 1
            self.add(*problems)

    def lose(self, error: OutputsError) -> None:
        """Note a file that is left out as a whole."""
        self.files += 1
        self.add_file(error)

    def include(self, other: "Mistakes") -> None:
        """Add the mistakes of one of several files."""
        self.outputs += other.outputs
        listed = [Problem(f"{other.source}: {each.where}", each.what) for each in other.listed]
        self.add(*listed, further=other.found - len(listed))

    def settle(self, outputs: int) -> None:
        """Refuse the source for its mistakes, unless outputs with mistakes are left out and some have none.

        Args:
            outputs: Number of outputs in the source, with those that are left out.

        Raises:
            OutputsError: With the first twenty mistakes and the number of further ones.
        """
        if not (self._skip and self.outputs < outputs):
            self.check()

    def notes(self) -> tuple[str, ...]:
        """What a run says of the outputs that are left out: one sentence, or nothing."""
        if not self.found:
            return ()
        counts = [
            f"{count:,} {noun if count == 1 else nouns}"
            for count, noun, nouns in (
                (self.outputs, "output", "outputs"),
                (self.files, "file of outputs", "files of outputs"),
            )
            if count
        ]
        one = self.outputs + self.files == 1
        listed = "; ".join(
            f"{self.source}: {each}" if self.source else str(each) for each in self.listed[:MOST_IN_A_NOTE]
        )
        more = self.found - min(len(self.listed), MOST_IN_A_NOTE)
        further = f"; and {more:,} more mistakes" if more > 1 else "; and 1 more mistake" if more else ""
        return (f"{' and '.join(counts)} {'is' if one else 'are'} left out as invalid: {listed}{further}",)


class RecordedOutputs:
    """The outputs of a file or a list as attempts.

    They are read twice, so that all mistakes are reported together and before anything is scored or stored:
    creating this validates every output, iterating yields the attempts. The validation does not normalise
    traces, and stores 16 to 32 bytes an output, those of many outputs in a temporary file. It takes about
    as long as reading the attempts, a small part of scoring them.

    Args:
        records: The outputs.
        suite: The suite with the cases; its ``limits.output_bytes`` bounds each output.
        spill: The temporary file for the numbers that are kept of many outputs, if it is one of several.
        skip_invalid: Leave out outputs with mistakes, as long as there are others.

    Attributes:
        path: The file, which the paths of trace files are relative to.
        mapped: What was mapped.
        mistakes: The outputs that are left out.
        hashes: Hash of case and repeat of each output, to find duplicates.

    Raises:
        OutputsError: With the first twenty mistakes and the number of further ones.
    """

    def __init__(
        self,
        records: Records,
        suite: Suite,
        *,
        spill: SpillFile | None = None,
        skip_invalid: bool = False,
    ) -> None:
        self.path = records.path
        self._records = records
        self._suite = suite
        source = "" if self.path == Path() else str(self.path)
        self.mistakes = Mistakes(source, skip=skip_invalid)
        self._columns = output_columns_of(records, suite, source=source or "outputs")
        self.mapped = self._columns.notes
        if isinstance(records, Listed):
            records.convert(self._columns.of)
            self._columns = OutputColumns(None, None, suite, table=False)
        self.hashes: NumberBuffer[int] = NumberBuffer("q", spill)
        try:
            self._check()
            if not len(self.hashes):
                raise OutputsError(source or "outputs", "holds no output")
            self._check_duplicates()
        finally:
            records.close()
        self.mistakes.settle(len(self))
        if spill is None:
            self.forget_hashes()
        else:
            records.seal()
            self.hashes.seal()

    def forget_hashes(self) -> None:
        """Forget what duplicates were found by: it is not sent to other processes."""
        self.hashes = NumberBuffer("q")

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run says of these outputs."""
        return (*self.mapped, *self.mistakes.notes())

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Yield each attempt with its case, in the order of the file."""
        return self.read(range(len(self)))

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices of bounded number and size; see ``Partitioned``."""
        return self._records.parts()

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a range of indices; see ``Partitioned``."""
        limit = self._suite.settings.limits.output_bytes
        for index, (number, content) in zip(part, self._records.rows(part), strict=True):
            if index in self.mistakes.left_out:
                continue
            output, problems, flags = self._columns.read(content, self._records.named(number))
            if output is None:  # it was valid when it was checked
                raise OutputsError(str(self.path), problems)
            attempt = attempt_from(output, flags, folder=self.path.parent, limit=limit)
            yield self._suite.case(output.case), attempt

    def place(self, index: int) -> str:
        """The place of an attempt in its file, for messages."""
        return self._records.place(index)

    def _check(self) -> None:
        """Validate every output on its own, and keep a hash of case and repeat of each."""
        for index, (number, content) in enumerate(self._records.scan(keep=True)):
            place = self._records.named(number)
            output, wrong, _ = self._columns.read(content, place)
            if output is not None:
                wrong = self._problems(output, place)
            self.mistakes.add_output(index, wrong)
            self.hashes.append(hash(("", index) if wrong or output is None else (output.case, output.repeat)))

    def _problems(self, output: Output, place: str) -> list[Problem]:
        """The mistakes in the trace and the messages of an output, and an unknown case."""
        problems = trace_problems(output, place, self.path.parent) + message_problems(output, place)
        if self._suite.position(output.case) is None:
            what = no_such_case(self._suite, output.case, suggests=not self.mistakes.full)
            problems.append(Problem(place, what))
        return problems

    def _check_duplicates(self) -> None:
        """Find duplicate attempts: compare the hashes first, then the outputs with equal ones."""
        first: dict[tuple[str, int], int] = {}
        equal = equal_hashes([self.hashes])
        for index, (_, content) in zip(equal, self._records.rows(equal), strict=True):
            output, _, _ = self._columns.read(content, "")
            if output is not None:
                earlier = first.setdefault((output.case, output.repeat), index)
                if earlier != index:
                    what = duplicate_of(self.place(earlier), output.case, output.repeat)
                    self.mistakes.add_output(index, [Problem(self.place(index), what)])


class OutputsFiles:
    """The attempts of many files, file after file; see :class:`RecordedOutputs`.

    Args:
        files: The files.
        suite: The suite with the cases.
        skip_invalid: Leave out outputs with mistakes, and files that cannot be read, as long as there are
            others.

    Attributes:
        mistakes: What is left out.

    Raises:
        OutputsError: With the first twenty mistakes of all files and the number of further ones.
    """

    def __init__(self, files: Sequence[Path], suite: Suite, *, skip_invalid: bool = False) -> None:
        self._files: list[RecordedOutputs] = []
        self.mistakes = Mistakes(skip=skip_invalid)
        spill = SpillFile()
        for path in files:
            try:
                records = open_outputs(path, spill=spill)
                self._files.append(RecordedOutputs(records, suite, spill=spill, skip_invalid=skip_invalid))
            except OutputsError as error:
                self.mistakes.lose(error)
        self._first = [0, *accumulate(map(len, self._files))]
        if self._files and (skip_invalid or not self.mistakes.found):
            self._check_duplicates()
        for each in self._files:
            self.mistakes.include(each.mistakes)
            each.forget_hashes()
        self.mistakes.settle(len(self))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run says of these outputs."""
        mapped = dict.fromkeys(chain.from_iterable(each.mapped for each in self._files))
        return (*mapped, *self.mistakes.notes())

    def __len__(self) -> int:
        return self._first[-1]

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Yield each attempt with its case."""
        return chain.from_iterable(self._files)

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices, none of which extends over two files; see ``Partitioned``."""
        for first, file in zip(self._first, self._files, strict=False):
            for part in file.parts():
                yield range(first + part.start, first + part.stop)

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a part, or of some of its indices; see ``Partitioned``."""
        number, within = self._within(part.start)
        return self._files[number].read(range(within, within + len(part)))

    def _check_duplicates(self) -> None:
        """Find attempts that are in two files: compare hashes first, then the attempts with equal ones."""
        first: dict[tuple[str, int], int] = {}
        for index in equal_hashes([file.hashes for file in self._files]):
            for _, attempt in self.read(range(index, index + 1)):
                earlier = first.setdefault((attempt.case, attempt.repeat), index)
                if earlier != index:
                    what = duplicate_of(self._place(earlier), attempt.case, attempt.repeat)
                    number, within = self._within(index)
                    file = self._files[number]
                    file.mistakes.add_output(within, [Problem(file.place(within), what)])

    def _within(self, index: int) -> tuple[int, int]:
        """Number of the file that holds an output, and the index of the output in it."""
        number = bisect_right(self._first, index) - 1
        return number, index - self._first[number]

    def _place(self, index: int) -> str:
        number, within = self._within(index)
        file = self._files[number]
        return f"{file.path}: {file.place(within)}"


def output_schema() -> dict[str, Any]:
    """JSON Schema of one line of a file of outputs."""
    from trivium.suites.json_schema import without_sources

    (reference,), records = msgspec.json.schema_components([Output], ref_template="#/$defs/{name}")
    for schema in records.values():
        schema["description"] = without_sources(schema["description"].partition("\n")[0])
    records["Output"]["properties"]["case"]["type"] = ["string", "number"]
    described = 'A native trace, or {"file": path, "format": name, "trace_id": one of several}.'
    trace = {"type": ["object", "null"], "description": described}
    records["Output"]["properties"]["trace"] = trace
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **reference, "$defs": records}


def equal_hashes(hashes: Sequence[NumberBuffer[int]]) -> list[int]:
    """Indices of the values that are there more than once, in order."""
    return repeated(hashes[0] if len(hashes) == 1 else joined(hashes))
