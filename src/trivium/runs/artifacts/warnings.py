"""What a reader of an artifact is warned of (spec: metrics, B.3, S.10)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trivium.runs.items.ranked import Scale
from trivium.runs.items.table import ItemTable
from trivium.trust.selective.items import Items

FEW_GROUPS, TOO_FEW_GROUPS = 20, 10

MOST_TIED = 0.2
"""Share of the predictions in one plateau above which a reader is told of ties."""

WIDEST_JUMP = 0.05
"""Coverage beyond the one asked for from which on a reader is told of it."""


def warnings_of_items(tables: Sequence[ItemTable], included: int, scale: Scale) -> list[str]:
    """What holds of the items, whatever the confidence."""
    found = [f"{table.origin.path}: {note}" for table in tables for note in table.notes]
    if scale.source == "observed":
        found.append(
            f"nobody says what values are possible: the range {scale.low:g} to {scale.high:g} was seen in "
            "the items (--range LOW:HIGH states it)"
        )
    if included == 1:
        found.append("one group: what differs between groups cannot be seen, so there is no interval")
    elif included < TOO_FEW_GROUPS:
        found.append(
            f"{included} groups: an interval of so few does not hold what it promises; read none as 95 %"
        )
    elif included < FEW_GROUPS:
        found.append(f"{included} groups: intervals of fewer than {FEW_GROUPS} groups tend to be too narrow")
    for table in tables:
        if table.failed:
            everyone = table.groups.count + len(table.failed)
            share = float(table.predicted.mean()) * table.groups.count / everyone if table.n else 0.0
            found.append(
                f"{_which(table, tables)}{len(table.failed)} of {everyone} groups failed and are left out: "
                "the figures speak of those that succeeded. Had the failed ones abstained from as many items "
                f"each, {100 * share:.1f} % would be predicted"
            )
        if table.n and not table.predicted.any():
            found.append(f"{_which(table, tables)}no item has a prediction: there is no risk to speak of")
    return found


def warnings_of_variant(items: Items, entry: dict[str, Any]) -> list[str]:
    """What holds of one confidence: ties, and how far they make coverage jump."""
    found = []
    points, predicted = entry["curve"]["working_points"], int(items.predicted.sum())
    if points == 1 and predicted > 1:
        found.append("every prediction has the same confidence, which ranks nothing")
    elif points > 1:
        _, sizes = np.unique(items.confidence[items.predicted], return_counts=True)
        if sizes.max() > MOST_TIED * predicted and predicted > points:
            found.append(
                "more than a fifth of the predictions share one confidence; AUGRC bears ties better than AURC"
            )
    readings = [reading for reading in entry["mae_at_coverage"].values() if reading]
    widest = max(readings, key=lambda reading: reading["achieved"] - reading["requested"], default=None)
    if points < predicted and widest and widest["achieved"] - widest["requested"] > WIDEST_JUMP:
        found.append(
            f"ties make coverage jump: the risk of the most confident {100 * widest['requested']:g} % is "
            f"that of the most confident {100 * widest['achieved']:.1f} %"
        )
    return found


def _which(table: ItemTable, tables: Sequence[ItemTable]) -> str:
    return "" if len(tables) == 1 else f"{table.origin.mode or table.origin.path}: "
