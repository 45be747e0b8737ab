"""Mistakes in recorded outputs: all told together, or counted while outputs that have them are left out."""

from collections.abc import Sequence

from trivium.errors import OutputsError, Problem, Problems

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
