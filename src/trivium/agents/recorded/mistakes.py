"""Mistakes in recorded outputs: all told together, or counted while outputs that have them are left out."""

from collections.abc import Sequence

from trivium.errors import MOST_PROBLEMS, OutputsError, Problem
from trivium.records.documents import placed

MOST_IN_A_NOTE = 3
"""Most mistakes that the note of a run lists."""


class Mistakes:
    """The mistakes of one source of outputs.

    Args:
        source: The file; empty for several files or a list in memory.
        skip: Whether outputs with mistakes are left out; :meth:`settle` raises an error otherwise.

    Attributes:
        left_out: Indices of the outputs of this source that are left out.
        outputs: Number of outputs with mistakes, also in other files (:meth:`include`).
        files: Number of files that are left out as a whole.
        listed: The first mistakes, each with its place in the source.
        found: Number of all mistakes.
    """

    def __init__(self, source: str = "", *, skip: bool = False) -> None:
        self.left_out: set[int] = set()
        self.outputs = 0
        self.files = 0
        self.listed: list[Problem] = []
        self.found = 0
        self._source = source
        self._skip = skip

    @property
    def few(self) -> bool:
        """Whether another mistake would still be listed."""
        return len(self.listed) < MOST_PROBLEMS

    def add(self, index: int, problems: Sequence[Problem]) -> None:
        """Note the mistakes of an output, if it has any."""
        if problems:
            if self._skip:
                self.left_out.add(index)
            self.outputs += 1
            self._list(problems)

    def lose(self, error: OutputsError) -> None:
        """Note a file that is left out as a whole."""
        self.files += 1
        self._list(placed(error), further=error.left_out)

    def include(self, other: "Mistakes") -> None:
        """Add the mistakes of one of several files."""
        self.outputs += other.outputs
        source = other._source  # noqa: SLF001 - of the same class
        listed = [Problem(f"{source}: {each.where}", each.what) for each in other.listed]
        self._list(listed, further=other.found - len(listed))

    def _list(self, problems: Sequence[Problem], *, further: int = 0) -> None:
        self.listed.extend(problems[: MOST_PROBLEMS - len(self.listed)])
        self.found += len(problems) + further

    def settle(self, outputs: int) -> None:
        """Refuse the source for its mistakes, unless outputs with mistakes are left out and some have none.

        Args:
            outputs: Number of outputs in the source, with those that are left out.

        Raises:
            OutputsError: With the first twenty mistakes and the number of further ones.
        """
        if self.found and not (self._skip and self.outputs < outputs):
            raise OutputsError(self._source, self.listed, left_out=self.found - len(self.listed))

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
            f"{self._source}: {each}" if self._source else str(each) for each in self.listed[:MOST_IN_A_NOTE]
        )
        more = self.found - min(len(self.listed), MOST_IN_A_NOTE)
        further = f"; and {more:,} more mistakes" if more > 1 else "; and 1 more mistake" if more else ""
        return (f"{' and '.join(counts)} {'is' if one else 'are'} left out as invalid: {listed}{further}",)
