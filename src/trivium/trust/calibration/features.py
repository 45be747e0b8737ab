"""What a supervised calibrator looks at: signals of an item as a row of numbers (spec: metrics, S.10)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError, suggest
from trivium.trust.confidence.signals import Floats, Row, Signals

KNOWN = (
    "llm_evidence_count",
    "retrieval_reference_count",
    "retrieval_similarity_mean",
    "retrieval_similarity_max",
    "verbalized_confidence",
    "token_msp",
    "token_pe",
    "token_energy",
    "consistency_modal_confidence",
    "consistency_score_std",
    "consistency_na_rate",
)
"""The signals that a judgement can carry (spec: metrics, T2.5)."""

MIDDLE_OF_FIVE = 3.0

WITHOUT_DEFAULT = frozenset({"consistency_modal_confidence"})
"""Signals whose name would say 3, though they live in [0, 1]: a gap is an error."""


def feature_matrix(
    rows: Sequence[Row],
    features: Sequence[str],
    *,
    groups: Sequence[object] | None = None,
    items: Sequence[object] | None = None,
    used: npt.ArrayLike | None = None,
    wanted_by: str = "the calibrator",
) -> tuple[Floats, list[str]]:
    """The features of every item.

    A signal that is null or missing counts 0 where its name has "similarity" in it, 3 (the middle of 1–5)
    where it has "confidence", else 0; how often that happened is told. A name that is neither a signal of
    judgements nor found in any item is refused: a misspelt feature would be a constant.

    Args:
        rows: One mapping of signal names to values an item, n of them.
        features: Names of d signals.
        groups: The group of each item, for errors.
        items: The name of each item, for errors.
        used: Which items matter, shape (n,), bool.
        wanted_by: Who asks, for errors.

    Returns:
        Shape (n, d), finite, NaN for items that do not matter; and what was filled in.

    Raises:
        TrustError: If a feature is unknown, or a value is no finite number.
    """
    signals = Signals(rows, wanted_by=wanted_by, groups=groups, items=items, used=used)
    unknown = [name for name in features if name not in KNOWN and not any(name in row for row in rows)]
    if unknown:
        raise TrustError(
            f'{wanted_by}: no item has a signal "{unknown[0]}".{suggest(unknown[0], KNOWN)}\n'
            f"  known: {', '.join(KNOWN)}"
        )
    columns = [signals.number(name, null=_default(name), absent=_default(name)) for name in features]
    matrix = np.column_stack(columns) if columns else np.empty((len(rows), 0))
    return matrix, filled_in(signals)


def filled_in(signals: Signals) -> list[str]:
    """One line for each signal that a default stood in for."""
    return [
        f'signal "{name}" is null or missing in {count:,} of {signals.counted:,} items; its default was used'
        for name, count in signals.filled.items()
    ]


def _default(name: str) -> float | None:
    if name in WITHOUT_DEFAULT:
        return None
    return MIDDLE_OF_FIVE if "confidence" in name and "similarity" not in name else 0.0
