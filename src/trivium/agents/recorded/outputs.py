"""Reads a ``.jsonl`` file of recorded outputs as attempts (docs/definitions/files.md#outputs)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from trivium import storage
from trivium.agents.attempt import Attempt
from trivium.agents.recorded.mistakes import Mistakes
from trivium.agents.recorded.record import (
    Output,
    attempt_from,
    lines_of,
    parts_of,
    read_line,
    trace_problems,
)
from trivium.errors import MOST_PROBLEMS, OutputsError, Problem, suggest
from trivium.number_buffer import NumberBuffer, SpillFile, joined, repeated
from trivium.storage import Stamp, open_file, path_of
from trivium.suites.case import Case
from trivium.suites.files.documents import check_is_file
from trivium.suites.suite import Suite

READ_AT_ONCE = 1 << 17
"""Size of a read, in bytes: large, because the file is read from end to end."""

MOST_SUGGESTED_FROM = 10_000
"""Largest suite, in cases, for which a similar id is suggested."""


class Together:
    """What files of outputs share that are read as one.

    Attributes:
        spill: The temporary file for the numbers that each of them keeps of many outputs.
        hashes: For each file, the hash of case and repeat of each output, to find duplicates.
    """

    def __init__(self) -> None:
        self.spill = SpillFile()
        self.hashes: list[NumberBuffer[int]] = []

    def keep(self, hashes: NumberBuffer[int]) -> None:
        """Keep the hashes of a file."""
        hashes.seal()
        self.hashes.append(hashes)


class OutputsFile:
    """The attempts of a .jsonl file.

    The file is read twice. Opening it validates every line, so that all mistakes are reported together and
    before anything is scored or stored; iterating yields the attempts. The validation does not normalise
    traces, and stores 16 bytes per line (offset, and a hash of case and repeat; the offset stays), of many
    lines in a temporary file. It takes about as long as reading the attempts, a small part of scoring
    them.

    Args:
        path: The file; blank lines are skipped.
        suite: The suite with the cases; its ``limits.output_bytes`` bounds each output.
        together: What it shares with other files, if it is one of several.
        skip_invalid: Leave out lines with mistakes, as long as there are others.

    Attributes:
        path: The file.
        mapped: What was mapped: nothing, since the keys are Trivium's own.
        mistakes: The lines that are left out.

    Raises:
        OutputsError: With the first twenty mistakes of the file and the number of further ones.
    """

    mapped: tuple[str, ...] = ()

    def __init__(
        self,
        path: str | Path,
        suite: Suite,
        *,
        together: Together | None = None,
        skip_invalid: bool = False,
    ) -> None:
        self.path = path_of(path) if isinstance(path, str) else path
        self._folder = self.path.parent
        self._suite = suite
        self.mistakes = Mistakes(str(self.path), skip=skip_invalid)
        check_is_file(self.path, error=OutputsError)
        with self._opened() as file:
            self._stamp = stamp_of(self.path)
            starts, hashes = self._check(file, None if together is None else together.spill)
            self._check_duplicates(file, starts, hashes)
            self._starts = starts
        if together is not None:
            starts.seal()
            together.keep(hashes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run says of these outputs."""
        return self.mistakes.notes()

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Yield each attempt with its case, in the order of the file."""
        return self.read(range(len(self)))

    def parts(self) -> Iterator[range]:
        """Yield ranges of lines of bounded number and size; see ``Partitioned``."""
        return parts_of(self._starts)

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a range of lines, blank ones not counted; see ``Partitioned``."""
        folder, limit = self._folder, self._suite.settings.limits.output_bytes
        with self._opened() as file:
            if stamp_of(self.path) != self._stamp:
                raise OutputsError(str(self.path), "has changed since it was checked")
            file.seek(self._starts[part.start])
            for index, (number, _, line) in zip(part, lines_of(file, str(self.path)), strict=False):
                if index in self.mistakes.left_out:
                    continue
                output, problems, flags = read_line(line, number)
                if output is None:  # it was valid when it was checked
                    raise OutputsError(str(self.path), problems)
                yield (
                    self._suite.case(output.case),
                    attempt_from(output, flags, folder=folder, limit=limit),
                )

    def _opened(self) -> IO[bytes]:
        try:
            return open_file(self.path, read_at_once=READ_AT_ONCE)
        except OSError as failure:
            raise OutputsError(str(self.path), f"cannot be read: {failure.strerror or failure}") from failure

    def _check(self, file: IO[bytes], spill: SpillFile | None) -> tuple[NumberBuffer[int], NumberBuffer[int]]:
        """Validate every line on its own; return the offset and a hash of case and repeat of each."""
        starts: NumberBuffer[int] = NumberBuffer("Q", spill)
        hashes: NumberBuffer[int] = NumberBuffer("q", spill)
        for number, start, line in lines_of(file, str(self.path)):
            output, wrong, _ = read_line(line, number)
            if output is not None:
                wrong = self._problems(output, number, look_for_nearest=self.mistakes.few)
            self.mistakes.add(len(starts), wrong)
            starts.append(start)
            hashes.append(hash(("", start) if wrong or output is None else (output.case, output.repeat)))
        if not len(starts):
            raise OutputsError(str(self.path), "holds no output")
        self.mistakes.settle(len(starts))
        return starts, hashes

    def _problems(self, output: Output, number: int, *, look_for_nearest: bool) -> list[Problem]:
        problems = trace_problems(output, number, self._folder)
        if self._suite.position(output.case) is None:
            near = ""
            if look_for_nearest and len(self._suite) <= MOST_SUGGESTED_FROM:
                near = suggest(output.case, [case.id for case in self._suite])
            problems.append(Problem(f"line {number}", f'the suite has no case "{output.case}".{near}'))
        return problems

    def _check_duplicates(
        self, file: IO[bytes], starts: NumberBuffer[int], hashes: NumberBuffer[int]
    ) -> None:
        """Reject duplicate attempts: compare the hashes first, then the lines with equal hashes."""
        first: dict[tuple[str, int], int] = {}
        twice: list[tuple[int, int, tuple[str, int]]] = []
        for index in equal_hashes([hashes]):
            file.seek(starts[index])
            output, _, _ = read_line(file.readline(), 0)
            if output is not None and index not in self.mistakes.left_out:
                key = (output.case, output.repeat)
                earlier = first.setdefault(key, index)
                if earlier != index:
                    twice.append((index, earlier, key))
        if twice:
            shown = twice[:MOST_PROBLEMS]
            lines = self._line_numbers(file, {index: starts[index] for pair in shown for index in pair[:2]})
            for index, earlier, (case, repeat) in twice:
                what = f'duplicate of line {lines.get(earlier)}: case "{case}", repeat {repeat}'
                self.mistakes.add(index, [Problem(f"line {lines.get(index)}", what)])
            self.mistakes.settle(len(starts))

    def place(self, index: int) -> str:
        """The place of an attempt in the file, for messages; reads the file."""
        with self._opened() as file:
            return f"line {self._line_numbers(file, {index: self._starts[index]})[index]}"

    def _line_numbers(self, file: IO[bytes], starts: dict[int, int]) -> dict[int, int]:
        """Return the line numbers of the given offsets."""
        wanted = {start: index for index, start in starts.items()}
        file.seek(0)
        return {
            wanted[start]: number for number, start, _ in lines_of(file, str(self.path)) if start in wanted
        }


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


def stamp_of(path: Path) -> Stamp:
    """What tells a file from an earlier one of its name.

    Raises:
        OutputsError: If it cannot be read.
    """
    try:
        return storage.stamp_of(path)
    except OSError as failure:
        raise OutputsError(str(path), f"cannot be read: {failure.strerror or failure}") from failure


def equal_hashes(hashes: Sequence[NumberBuffer[int]]) -> list[int]:
    """Indices of the values that are there more than once, in order."""
    return repeated(hashes[0] if len(hashes) == 1 else joined(hashes))
