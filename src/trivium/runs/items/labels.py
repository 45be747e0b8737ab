"""People's labels, read and looked up by attempt (spec: files, labels)."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from trivium.errors import ItemsError, Problem, suggest
from trivium.runs.items.item import Label
from trivium.runs.items.lines import read_records
from trivium.runs.items.table import LISTED
from trivium.suites.door import clean

Key = tuple[str, int, str]
"""Case, repeat and dimension."""


class Labels:
    """Labels of one file.

    Where several people labelled the same, their median counts.

    Args:
        path: The file, .jsonl or .csv (or .parquet).

    Raises:
        ItemsError: If the file is wrong, or one person labelled the same twice; names the lines.
    """

    def __init__(self, path: str | Path) -> None:
        self.source = str(path)
        self._lines: dict[Key, int] = {}
        self._values: dict[Key, list[float]] = {}
        self._problems: list[Problem] = []
        self._left_out = 0
        seen: dict[tuple[Key, str | None], int] = {}
        for number, label in read_records(Path(path), Label, self._refuse):
            key = (clean(label.case)[0], label.repeat, label.dimension)  # as the run has the ids of its cases
            before = seen.setdefault((key, label.by), number)
            if before != number:
                who = f"by {label.by} " if label.by else ""
                self._refuse(number, f"{_called(key)} is labelled {who}in line {before} already")
            self._lines.setdefault(key, number)
            self._values.setdefault(key, []).append(label.value)
        self._raise()

    def value(self, key: Key) -> float | None:
        """What people say, or None."""
        values = self._values.get(key)
        return None if values is None else float(median(values))

    def of(self, case: str, repeat: int) -> Iterator[str]:
        """The dimensions in which an attempt is labelled."""
        return (dimension for dimension in self.dimensions if (case, repeat, dimension) in self._values)

    @property
    def dimensions(self) -> list[str]:
        """All dimensions, in the order of the file."""
        return list(dict.fromkeys(dimension for _, _, dimension in self._values))

    def records(self) -> Iterator[Label]:
        """One label a key, as it counts."""
        for case, repeat, dimension in self._values:
            value = self.value((case, repeat, dimension))
            if value is not None:
                yield Label(case=case, repeat=repeat, dimension=dimension, value=value)

    def check_dimension(self, dimension: str) -> None:
        """Raise ItemsError unless there is a label of a dimension."""
        if dimension not in self.dimensions:
            known = ", ".join(self.dimensions) or "nothing"
            hint = suggest(dimension, self.dimensions)
            raise ItemsError(self.source, f'no label of "{dimension}".{hint} Labelled are: {known}')

    def check_attempts(self, attempts: set[tuple[str, int]]) -> None:
        """Raise ItemsError if a label is of an attempt that there is not."""
        cases = {case for case, _ in attempts}
        for (case, repeat, dimension), number in self._lines.items():
            if case not in cases:
                self._refuse(number, f'the run has no case "{case}".{suggest(case, cases)}')
            elif (case, repeat) not in attempts:
                self._refuse(number, f"the run has no {_called((case, repeat, dimension), attempt=True)}")
        self._raise()

    def _refuse(self, number: int, what: str) -> None:
        if len(self._problems) < LISTED:
            self._problems.append(Problem(f"line {number}", what))
        else:
            self._left_out += 1

    def _raise(self) -> None:
        if self._problems:
            raise ItemsError(self.source, self._problems, left_out=self._left_out)


def _called(key: Key, *, attempt: bool = False) -> str:
    case, repeat, dimension = key
    where = f'repeat {repeat} of case "{case}"'
    return where if attempt else f'"{dimension}" of {where}'
