"""What of a run can be had as rows."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import get_args

from trivium.errors import InputError, suggest
from trivium.runs.frames.names import What
from trivium.runs.items.rows import rows_and_columns
from trivium.store.export.rows import (
    ATTEMPT_COLUMNS,
    SCORE_COLUMNS,
    SUMMARY_COLUMNS,
    Row,
    attempt_rows,
    score_rows,
    summary_rows,
)

Make = Callable[..., Iterator[Row]]

_OWN: dict[str, tuple[Make, tuple[str, ...]]] = {
    "scores": (score_rows, SCORE_COLUMNS),
    "attempts": (attempt_rows, ATTEMPT_COLUMNS),
    "summary": (summary_rows, SUMMARY_COLUMNS),
}


def kind(
    what: str, labels: Path | None, certificates: Sequence[str | Path] = (), confidence: str | None = None
) -> tuple[Make, tuple[str, ...]]:
    """Who makes the rows, and their columns.

    Args:
        what: One of ``What``.
        labels: People's labels, for items and labels.
        certificates: For review, in place of those that the run applied.
        confidence: For judgements and items, in place of what they state.

    Raises:
        InputError: If there is no such kind, or labels are needed and none are given.
    """
    if what not in get_args(What):
        raise InputError(
            "", f'a run has no "{what}": {", ".join(get_args(What))}.{suggest(what, get_args(What))}'
        )
    if confidence is not None and what in _OWN:
        raise InputError("--confidence", "goes with --what judgements and items alone")
    return _OWN[what] if what in _OWN else rows_and_columns(what, labels, certificates, confidence)
