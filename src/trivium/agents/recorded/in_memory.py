"""Reads recorded outputs into memory: a list of mappings, a data frame, or the rows of a table."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.outputs import MOST_PROBLEMS
from trivium.agents.recorded.record import PART_ATTEMPTS, Output, attempt_from, trace_problems
from trivium.agents.recorded.tables import Rows, mapped
from trivium.errors import OutputsError, Problem, suggest
from trivium.suites.case import Case
from trivium.suites.sanitize import sanitise
from trivium.suites.sources.in_memory import rows_of_table
from trivium.suites.suite import Suite
from trivium.suites.validation import convert, describe


class OutputsInMemory:
    """Attempts from a list of mappings, each with the keys of a line in a file of outputs.

    Args:
        outputs: Mappings or Attempts, a data frame of pandas or polars, or an Arrow table.
        suite: The suite with the cases; its ``limits.output_bytes`` bounds each output.
        source: The file that they come from, for messages and as the base of the paths of trace files.

    Attributes:
        notes: What was mapped.

    Raises:
        OutputsError: With the first twenty mistakes and the number of further ones.
    """

    def __init__(self, outputs: Any, suite: Suite, *, source: str = "") -> None:
        self._suite = suite
        self._folder = Path(source).parent
        self._outputs: list[tuple[Output, tuple[str, ...]]] = []
        problems: list[Problem] = []
        places: dict[tuple[str, int], int] = {}
        given = outputs if isinstance(outputs, Rows) else _mapped(outputs, suite)
        self.notes = given.notes
        for index, (row, place) in enumerate(zip(given.rows, given.places, strict=True)):
            output, wrong, flags = _read(row, place)
            if output is not None:
                wrong = self._problems(output, index, place)
                first = places.setdefault((output.case, output.repeat), index)
                if first != index:
                    twice = (
                        f'duplicate of {given.places[first]}: case "{output.case}", repeat {output.repeat}'
                    )
                    wrong.append(Problem(place, twice))
                self._outputs.append((output, flags))
            problems += wrong
        if problems:
            shown = problems[:MOST_PROBLEMS]
            raise OutputsError(source, shown, left_out=len(problems) - len(shown))
        if not self._outputs:
            raise OutputsError(source or "outputs", "holds no output")

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
        for output, flags in self._outputs[part.start : part.stop]:
            yield self._suite.case(output.case), attempt_from(output, flags, folder=self._folder, limit=limit)

    def _problems(self, output: Output, index: int, place: str) -> list[Problem]:
        problems = [
            Problem(each.where.replace(f"line {index}", place, 1), each.what)
            for each in trace_problems(output, index, self._folder)
        ]
        if self._suite.position(output.case) is None:
            near = suggest(output.case, [case.id for case in self._suite]) if index < MOST_PROBLEMS else ""
            problems.append(Problem(place, f'the suite has no case "{output.case}".{near}'))
        return problems


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


def _read(row: Any, place: str) -> tuple[Output | None, list[Problem], tuple[str, ...]]:
    """Convert a mapping to a record, or list its mistakes; also returns flags for what was replaced."""
    try:
        plain = msgspec.to_builtins(dict(row) if isinstance(row, Mapping) else row)
    except (TypeError, ValueError, RecursionError) as wrong:
        return None, [Problem(place, f"is no JSON value: {wrong}")], ()
    value, flags = sanitise(plain)
    output, problems = convert(value, Output, place if place.startswith("outputs[") else f"{place}:")
    return output, problems, flags
