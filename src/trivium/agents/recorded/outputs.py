"""Reads recorded outputs as attempts (docs/definitions/files.md#outputs)."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

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
from trivium.number_buffer import NumberBuffer, SpillFile, repeated
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
    """The mistakes of outputs.

    Args:
        source: The file; empty for several files or a list in memory.
        skip: Whether outputs with mistakes are left out; :meth:`settle` raises an error otherwise.

    Attributes:
        left_out: Indices of the outputs that are left out.
        outputs: Number of outputs with mistakes.
        files: Number of files that are left out as a whole.
    """

    def __init__(self, source: str = "", *, skip: bool = False) -> None:
        super().__init__(source, OutputsError)
        self.left_out: set[int] = set()
        self.outputs = 0
        self.files = 0
        self._skip = skip

    def add_outputs(self, indices: Collection[int]) -> None:
        """Note which outputs have mistakes."""
        self.outputs += len(indices)
        if self._skip:
            self.left_out.update(indices)

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


class _Source(NamedTuple):
    """A file or a list of outputs.

    Attributes:
        records: The outputs.
        columns: What their columns or keys mean.
        first: Index of the first of them among all outputs.
    """

    records: Records
    columns: OutputColumns
    first: int


class RecordedOutputs:
    """The outputs of files, file after file, or of a list as attempts.

    They are read twice, so that all mistakes are reported together and before anything is scored or stored:
    creating this validates every output, iterating yields the attempts. The validation does not normalise
    traces, and stores 16 to 32 bytes an output, those of many outputs in a temporary file. It takes about
    as long as reading the attempts, a small part of scoring them.

    Args:
        sources: The files, or a list of outputs.
        suite: The suite with the cases; its ``limits.output_bytes`` bounds each output.
        skip_invalid: Leave out outputs with mistakes, and of several files those that cannot be read or have
            nothing else, as long as there are others.

    Attributes:
        mistakes: What is left out.

    Raises:
        OutputsError: With the first twenty mistakes of all files and the number of further ones.
    """

    def __init__(self, sources: Sequence[Path | Listed], suite: Suite, *, skip_invalid: bool = False) -> None:
        self._suite = suite
        self._several = len(sources) > 1
        self.mistakes = Mistakes("" if self._several else _name_of(sources[0]), skip=skip_invalid)
        self._sources: list[_Source] = []
        self._mapped: dict[str, None] = {}
        self._count = 0
        hashes: NumberBuffer[int] = NumberBuffer("q")
        for source in sources:
            try:
                self._add(source, hashes)
            except OutputsError as error:
                if not self._several:
                    raise
                self.mistakes.files += 1
                self.mistakes.add_file(error)
        self._check_duplicates(hashes)
        self.mistakes.settle(len(self))

    def _add(self, source: Path | Listed, hashes: NumberBuffer[int]) -> None:
        """Add a file or a list; its outputs are validated one by one."""
        spill = hashes.file if self._several else None
        records = source if isinstance(source, Listed) else open_outputs(source, spill=spill)
        name = _name_of(source) or "outputs"
        columns = output_columns_of(records, self._suite, source=name)
        self._mapped |= dict.fromkeys(columns.notes)
        if isinstance(records, Listed):
            records.convert(columns.of)
            columns = OutputColumns(None, None, self._suite, table=False)
        added = _Source(records, columns, self._count)
        found: NumberBuffer[int] = NumberBuffer("q", hashes.file)
        try:
            wrong = set(self._wrong(added, found))
        finally:
            records.close()
        if not len(found):
            raise OutputsError(name, "holds no output")
        if self._several and len(wrong) == len(found):
            self.mistakes.files += 1
            return
        self.mistakes.add_outputs(wrong)
        hashes.join(found)
        self._sources.append(added)
        self._count += len(found)
        if self._several:
            records.seal()

    def _wrong(self, source: _Source, hashes: NumberBuffer[int]) -> Iterator[int]:
        """Validate every output on its own; yield the indices of those with mistakes.

        Args:
            source: The outputs.
            hashes: Receives a hash of case and repeat of each.
        """
        for index, (number, content) in enumerate(source.records.scan(keep=True), source.first):
            place = source.records.named(number)
            output, wrong, _ = source.columns.read(content, place)
            if output is not None:
                wrong = self._problems(output, place, source.records.path.parent)
            if wrong:
                self.mistakes.add(*(Problem(self._placed(source, each.where), each.what) for each in wrong))
                yield index
            hashes.append(hash(("", index) if wrong or output is None else (output.case, output.repeat)))

    def _problems(self, output: Output, place: str, folder: Path) -> list[Problem]:
        """The mistakes in the trace and the messages of an output, and an unknown case."""
        problems = trace_problems(output, place, folder) + message_problems(output, place)
        if self._suite.position(output.case) is None:
            what = no_such_case(self._suite, output.case, suggests=not self.mistakes.full)
            problems.append(Problem(place, what))
        return problems

    def _placed(self, source: _Source, place: str) -> str:
        """A place in a file, for messages; with the file if there are several."""
        return f"{source.records.path}: {place}" if self._several else place

    def _check_duplicates(self, hashes: NumberBuffer[int]) -> None:
        """Find duplicate attempts: compare the hashes first, then the outputs with equal ones."""
        places: dict[tuple[str, int], str] = {}
        for source, together in groupby(repeated(hashes), self._source_of):
            indices = list(together)
            rows = source.records.rows([index - source.first for index in indices])
            for index, (number, content) in zip(indices, rows, strict=True):
                output, _, _ = source.columns.read(content, "")
                if output is not None:
                    place = self._placed(source, source.records.named(number))
                    earlier = places.setdefault((output.case, output.repeat), place)
                    if earlier != place:
                        self.mistakes.add(Problem(place, duplicate_of(earlier, output.case, output.repeat)))
                        self.mistakes.add_outputs([index])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run says of these outputs."""
        return (*self._mapped, *self.mistakes.notes())

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Yield each attempt with its case, in the order of the files."""
        for records, _, first in self._sources:
            yield from self.read(range(first, first + len(records)))

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices, none of which extends over two files; see ``Partitioned``."""
        for records, _, first in self._sources:
            for part in records.parts():
                yield range(first + part.start, first + part.stop)

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a part, or of some of its indices; see ``Partitioned``."""
        limit = self._suite.settings.limits.output_bytes
        records, columns, first = self._source_of(part.start)
        rows = records.rows(range(part.start - first, part.stop - first))
        for index, (number, content) in zip(part, rows, strict=True):
            if index in self.mistakes.left_out:
                continue
            output, problems, flags = columns.read(content, records.named(number))
            if output is None:  # it was valid when it was checked
                raise OutputsError(str(records.path), problems)
            attempt = attempt_from(output, flags, folder=records.path.parent, limit=limit)
            yield self._suite.case(output.case), attempt

    def _source_of(self, index: int) -> _Source:
        """What holds an output."""
        return self._sources[bisect_right(self._sources, index, key=lambda source: source.first) - 1]


def _name_of(source: Path | Listed) -> str:
    """The file of outputs, for messages; empty for a list in memory."""
    return "" if isinstance(source, Listed) else str(source)


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
