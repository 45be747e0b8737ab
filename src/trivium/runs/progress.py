"""Progress: what a run tells whoever watches it."""

from typing import Protocol


class Progress(Protocol):
    """Told how a run goes. Calls come from the run's own thread."""

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        """A run begins; ``already`` of ``total`` attempts were done by an earlier go at it."""

    def advance(self, *, done: int, failed: int) -> None:
        """So many more attempts are scored and stored, so many of them failed."""

    def end(self) -> None:
        """The run ended, one way or another."""


class Quiet:
    """Tells nobody."""

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        """Nothing."""

    def advance(self, *, done: int, failed: int) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""
