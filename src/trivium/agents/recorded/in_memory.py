"""Reads recorded outputs into memory: a list of mappings, a data frame, or the rows of a table."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.mistakes import Mistakes
from trivium.agents.recorded.outputs import Together
from trivium.agents.recorded.record import PART_ATTEMPTS, Output, attempt_from
from trivium.agents.recorded.tables import Rows, mapped, read_row, row_problems
from trivium.errors import OutputsError, Problem
from trivium.number_buffer import NumberBuffer
from trivium.storage import path_of
from trivium.suites.case import Case
from trivium.suites.sources.in_memory import rows_of_table
from trivium.suites.suite import Suite
from trivium.suites.validation import describe


class OutputsInMemory:
    """Attempts from a list of mappings, each with the keys of a line in a file of outputs.

    Args:
        outputs: Mappings or Attempts, a data frame of pandas or polars, or an Arrow table.
        suite: The suite with the cases; its ``limits.output_bytes`` bounds each output.
        source: The file that they come from, for messages and as the base of the paths of trace files.
        together: What it shares with other files, if it is one of several.
        skip_invalid: Leave out outputs with mistakes, as long as there are others.

    Attributes:
        path: The file that they come from.
        mapped: What was mapped.
        mistakes: The outputs that are left out.

    Raises:
        OutputsError: With the first twenty mistakes and the number of further ones.
    """

    def __init__(
        self,
        outputs: Any,
        suite: Suite,
        *,
        source: str = "",
        together: Together | None = None,
        skip_invalid: bool = False,
    ) -> None:
        self._suite = suite
        self.path = path_of(source)
        self._folder = self.path.parent
        self._outputs: list[tuple[Output | None, tuple[str, ...]]] = []
        self.mistakes = Mistakes(source, skip=skip_invalid)
        places: dict[tuple[str, int], str] = {}
        given = outputs if isinstance(outputs, Rows) else _mapped(outputs, suite)
        self.mapped = given.notes
        self._places = given.places
        for index, (row, place) in enumerate(zip(given.rows, given.places, strict=True)):
            output, wrong, flags = read_row(row, place)
            if output is not None:
                near = self.mistakes.few
                wrong = row_problems(output, suite, folder=self._folder, place=place, look_for_nearest=near)
                first = places.setdefault((output.case, output.repeat), place)
                if first != place:
                    twice = f'duplicate of {first}: case "{output.case}", repeat {output.repeat}'
                    wrong.append(Problem(place, twice))
            self.mistakes.add(index, wrong)
            self._outputs.append((None if wrong else output, flags))
        if not self._outputs:
            raise OutputsError(source or "outputs", "holds no output")
        self.mistakes.settle(len(self._outputs))
        if together is not None:
            keys = [
                ("", index) if each is None else (each.case, each.repeat)
                for index, (each, _) in enumerate(self._outputs)
            ]
            hashes: NumberBuffer[int] = NumberBuffer("q", together.spill)
            hashes.extend(map(hash, keys))
            together.keep(hashes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run says of these outputs."""
        return (*self.mapped, *self.mistakes.notes())

    def __len__(self) -> int:
        return len(self._outputs)

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Yield each attempt with its case, in the order of the list."""
        return self.read(range(len(self)))

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices; see ``Partitioned``."""
        for first in range(0, len(self), PART_ATTEMPTS):
            yield range(first, min(first + PART_ATTEMPTS, len(self)))

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a range of indices; see ``Partitioned``."""
        limit = self._suite.settings.limits.output_bytes
        for index, (output, flags) in zip(part, self._outputs[part.start : part.stop], strict=True):
            if output is None or index in self.mistakes.left_out:
                continue
            yield self._suite.case(output.case), attempt_from(output, flags, folder=self._folder, limit=limit)

    def place(self, index: int) -> str:
        """The place of an attempt in its file, for messages."""
        return self._places[index]


def _rows(outputs: Any) -> list[Any]:
    rows = rows_of_table(outputs)
    if rows is not None:
        return rows
    if isinstance(outputs, Iterable) and not isinstance(outputs, Mapping | bytes | bytearray):
        return list(outputs)
    what = (
        f"found {describe(outputs)}, expected a file, a prefixed source, a list of mappings or a data frame"
    )
    raise OutputsError("outputs", what)


def _mapped(outputs: Any, suite: Suite) -> Rows:
    rows = _rows(outputs)
    return mapped(rows, [f"outputs[{index}]" for index in range(len(rows))], suite, source="outputs")
