"""Which confidence ranks predictions where none is named (spec: metrics, H.4)."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Literal

import msgspec
import numpy as np

from trivium.errors import TrustError
from trivium.runs.items.ranked import STATED, confidences, variants_of
from trivium.runs.items.table import ItemTable
from trivium.trust.calibration.quality import auroc
from trivium.trust.calibration.targets import EQUAL

CANDIDATES = ("verbalized", "llm", "retrieval_similarity_mean", "token_msp", "consistency")
"""One confidence for each kind of signal. Few, since a certificate pays for each that is chosen among."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The confidences that are used, and why these.

    Attributes:
        names: The confidences.
        why: ``named`` by the user, ``stated`` with the items, ``best`` by AUROC on the labels, or the
            ``default`` of a source.
        auroc: Where the best was chosen, the AUROC of each signal that was considered. A signal is not fitted
            to the labels, so this is its cross-fitted AUROC too; only the choice has to be paid for.
    """

    names: tuple[str, ...]
    why: Literal["named", "stated", "best", "default"]
    auroc: dict[str, float] = {}

    @property
    def among(self) -> int:
        """How many confidences were considered with a look at the labels; 1 where none was chosen so."""
        return max(1, len(self.auroc))

    def to_json(self) -> dict[str, Any]:
        """The choice as a JSON value."""
        return {"why": self.why, "among": self.among, "auroc": self.auroc}


def choose(tables: Sequence[ItemTable], word: str | None, *, tolerance: float = 0.0) -> Choice:
    """The confidences that are asked for; where none are, what the items state, else the best signal.

    The best is the one of ``CANDIDATES`` with the highest AUROC for "the prediction is right" on the labels
    (of two tables the highest mean). Those are considered that every item has and that differ between items.

    Args:
        tables: The sides of a comparison, or the only one.
        word: A variant, ``all`` or ``default``; several with commas between; or None.
        tolerance: A prediction farther from the truth is wrong.
    """
    if word is not None:
        return Choice(names=variants_of(word), why="named")
    if all(table.states_confidence for table in tables):
        return Choice(names=(STATED,), why="stated")
    fixed = next((table.default_confidence for table in tables if table.default_confidence), None)
    if fixed is None:
        each = {name: [_auroc(table, name, tolerance) for table in tables] for name in CANDIDATES}
        found = {
            name: fmean(value for value in values if value is not None)
            for name, values in each.items()
            if None not in values
        }
        if found:
            return Choice(names=(max(found, key=found.__getitem__),), why="best", auroc=found)
    return Choice(names=variants_of(fixed or "default"), why="default")


def _auroc(table: ItemTable, name: str, tolerance: float) -> float | None:
    """How well a confidence tells right from wrong; None where it cannot be told, or all have the same."""
    try:
        values = confidences(table, name).values[table.predicted]
    except TrustError:
        return None
    if not values.size or values.min() == values.max():
        return None
    wrong = np.abs(table.pred - table.gt)[table.predicted] > tolerance + EQUAL
    found = auroc(values, ~wrong)
    return 0.5 if found is None else found
