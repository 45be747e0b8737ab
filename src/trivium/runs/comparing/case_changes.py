"""Finds the cases that two runs scored differently, and orders them by the change."""

from collections.abc import Mapping, Sequence

import numpy as np

from trivium.runs.comparing.moved_cases import CaseReader, ChangeColumns, MovedCases
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
    moved = order[changed.any(axis=0)[order]]
    cases = figures[by[0]].cases
    paired = np.any([figures[name].has_pair for name in by], axis=0)
    rose = int(np.count_nonzero(better[moved]))
    found = MovedCases(
        by=tuple(by),
        compared=int(np.count_nonzero(paired)),
        better=rose,
        worse=moved.size - rose,
    )
    found.__dict__["columns"] = ChangeColumns(
        [cases[at] for at in moved],
        tuple(by),
        decisive=decisive[moved].astype(np.int32),
        better=better[moved],
        base=np.array([figures[name].base[moved] for name in by]),
        head=np.array([figures[name].head[moved] for name in by]),
    )
    found.__dict__["reader"] = CaseReader(*runs, base.cases.of, head.cases.of)
    return found
