"""Finds the cases that two runs scored differently, and orders them by the change."""

from collections.abc import Mapping, Sequence

import numpy as np

from trivium.runs.comparing.moved_cases import CaseChange, CaseReader, MovedCases
from trivium.runs.comparing.pairing import PairedScores, ScoredRun
from trivium.runs.run import Run

ROUNDING = 1e-9
"""Smaller differences of a score are due to rounding."""


def find_moved_cases(
    figures: Mapping[str, PairedScores],
    by: Sequence[str],
    base: ScoredRun,
    head: ScoredRun,
    runs: tuple[Run, Run],
) -> MovedCases:
    """Find the cases whose deciding metrics changed.

    Args:
        figures: Values by metric, over the same cases.
        by: The deciding metrics; the first decides the order.
        base: Scores of base.
        head: Scores of head.
        runs: Base and head, from which the texts are read.
    """
    deltas = np.nan_to_num(np.array([figures[name].deltas for name in by]))
    deltas[np.abs(deltas) <= ROUNDING] = 0
    changed = deltas != 0
    decisive = np.argmax(changed, axis=0)  # the first metric that changed
    better = np.take_along_axis(deltas, decisive[None], axis=0)[0] > 0
    first, others = np.abs(deltas[0]), np.abs(deltas[1:]).max(axis=0, initial=0)
    order = np.lexsort((-others, better & (first > 0), -first))
    moved = order[changed.any(axis=0)[order]].tolist()
    cases = figures[by[0]].cases
    changes = tuple(
        CaseChange(
            case=cases[at],
            by=by[decisive[at]],
            better=bool(better[at]),
            values={
                name: (float(figures[name].base[at]), float(figures[name].head[at]))
                for name in by
                if figures[name].has_pair[at]
            },
        )
        for at in moved
    )
    paired = np.any([figures[name].has_pair for name in by], axis=0)
    found = MovedCases(
        by=tuple(by),
        compared=int(np.count_nonzero(paired)),
        better=int(np.count_nonzero(better[moved])),
        worse=len(changes) - int(np.count_nonzero(better[moved])),
        changes=changes,
    )
    ids = {change.case for change in changes}
    ours, theirs = (
        {case: position for position, case in side.positions.items() if case in ids} for side in (base, head)
    )
    places = {case: (ours[case], theirs[case]) for case in ids}
    found.__dict__["reader"] = CaseReader(*runs, places)
    return found
