"""Which groups an artifact rests on (spec: files; metrics, S, B.2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trivium.errors import ItemsError
from trivium.runs.items.table import ItemTable
from trivium.trust.groups import ordered_ids

SHOWN = 5


def included_groups(tables: Sequence[ItemTable], *, intersection_only: bool) -> list[str]:
    """Ids of the groups that succeeded on every side, in order.

    Raises:
        ItemsError: If there is none, or a side has groups that the other never met and
            ``intersection_only`` is not set.
    """
    if len(tables) == 1:
        return list(tables[0].groups.ids)
    left, right = (_all_ids(table) for table in tables)
    if left != right and not intersection_only and left & right:
        parts = [
            f"{len(ids):,} only in the {side} ({', '.join(ordered_ids(ids)[:SHOWN])}"
            f"{', …' if len(ids) > SHOWN else ''})"
            for side, ids in (("first", left - right), ("second", right - left))
            if ids
        ]
        raise ItemsError(
            "",
            f"the inputs differ in their groups: {'; '.join(parts)}. --intersection-only compares the rest",
        )
    common = set(tables[0].groups.ids) & set(tables[1].groups.ids)
    if not common:
        raise ItemsError(
            "",
            f"the two inputs have no group in common that succeeded in both "
            f"({tables[0].groups.count:,} in the first, {tables[1].groups.count:,} in the second)",
        )
    return ordered_ids(common)


def population(tables: Sequence[ItemTable], included: Sequence[str]) -> dict[str, Any]:
    """Counts of groups and items; of two sides the items of each.

    ``cmax_failed_abstained`` is the coverage there would be had failed groups abstained from all their items.
    """
    everyone = set.intersection(*(_all_ids(table) for table in tables))
    total, predicted = zip(*(_counts(table, included) for table in tables), strict=True)
    # A group that failed has no items to count: it is taken to have as many as the others on average.
    answered = len(included) / len(everyone) if everyone else 0.0
    shares = [part / whole if whole else 0.0 for part, whole in zip(predicted, total, strict=True)]
    worst = [share * answered for share in shares]
    return {
        "participants_total": len(everyone),
        "participants_included": len(included),
        "participants_failed": len(everyone) - len(included),
        "items_total": total[0],
        "items_predicted": predicted[0] if len(tables) == 1 else list(predicted),
        "cmax": shares[0] if len(tables) == 1 else shares,
        "cmax_failed_abstained": worst[0] if len(tables) == 1 else worst,
    }


def overlap(tables: Sequence[ItemTable], included: Sequence[str]) -> dict[str, int]:
    """How the groups of two sides overlap, as the original tool counts them."""
    left, right = (_all_ids(table) for table in tables)
    return {
        "participants_left_only": len(left - right),
        "participants_right_only": len(right - left),
        "participants_overlap_total": len(left & right),
        "participants_overlap_included": len(included),
        "participants_failed_left": len(tables[0].failed),
        "participants_failed_right": len(tables[1].failed),
    }


def rows_within(table: ItemTable, included: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each item is of one of the groups, shape (n,)."""
    wanted = set(included)
    inside = np.array([id_ in wanted for id_ in table.groups.ids], np.bool_)
    return inside[table.groups.codes] if table.n else np.empty(0, np.bool_)


def _counts(table: ItemTable, included: Sequence[str]) -> tuple[int, int]:
    inside = rows_within(table, included)
    return int(inside.sum()), int((inside & table.predicted).sum())


def _all_ids(table: ItemTable) -> set[str]:
    return {*table.groups.ids, *table.failed}
