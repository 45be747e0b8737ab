"""Says how each case changed by its passes: it broke, was fixed, is flaky, or it is unclear.

Definition: docs/definitions/comparisons.md#case-states.
"""

from typing import Literal, get_args

import numpy as np
from scipy.stats import hypergeom

from trivium.runs.comparing.rows import Ints

CaseState = Literal["broke", "fixed", "flaky", "unclear"]

STATES: tuple[CaseState, ...] = get_args(CaseState)
BROKE, FIXED, FLAKY, UNCLEAR = range(len(STATES))
SAME = len(STATES)
"""In place of the state of a case whose attempts all passed or all did not, or without a verdict."""

LEVEL = 0.05
"""Largest one-sided p-value of Fisher's test at which the counts of both sides tell them apart."""

_ROUNDING = 1e-12


def case_states(base_passes: Ints, base_attempts: Ints, head_passes: Ints, head_attempts: Ints) -> Ints:
    """Return the state of each case as its place in ``STATES``, or ``SAME``; shape (n,).

    Args:
        base_passes: Passes in base, shape (n,).
        base_attempts: Attempts with a verdict in base, shape (n,).
        head_passes: Passes in head, shape (n,).
        head_attempts: Attempts with a verdict in head, shape (n,).
    """
    table = np.array([base_passes, base_attempts, head_passes, head_attempts])
    # Many cases have the same counts.
    (ours, base, theirs, head), of_case = np.unique(table, axis=1, return_inverse=True)
    states = np.full(ours.size, SAME)
    known, several = (base > 0) & (head > 0), (base > 1) & (head > 1)
    lost, won = (ours == base) & (theirs == 0), (ours == 0) & (theirs == head)
    states[known & (lost | won)] = UNCLEAR
    states[known & (((ours > 0) & (ours < base)) | ((theirs > 0) & (theirs < head)))] = FLAKY
    of_both = (base + head, ours + theirs, head)
    fewer, more = hypergeom.cdf(theirs, *of_both), hypergeom.sf(theirs - 1, *of_both)
    states[known & ((several & lost) | (fewer <= LEVEL + _ROUNDING))] = BROKE
    states[known & ((several & won) | (more <= LEVEL + _ROUNDING))] = FIXED
    return states[of_case.ravel()]
