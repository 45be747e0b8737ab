"""Says how each case changed by its passes: it broke, was fixed, is flaky, or it is unclear.

Definition: docs/definitions/comparisons.md#case-states.
"""

from typing import Literal, get_args

import numpy as np

from trivium.runs.comparing.rows import Ints
from trivium.trust.subsets import exact_p

CaseState = Literal["broke", "fixed", "flaky", "unclear"]

STATES: tuple[CaseState, ...] = get_args(CaseState)
BROKE, FIXED, FLAKY, UNCLEAR = range(len(STATES))
SAME = len(STATES)
"""In place of the state of a case whose attempts all passed or all did not, or without a verdict."""

LEVEL = 0.05
"""Largest one-sided p-value of Fisher's test at which the counts of both sides tell them apart."""

_ROUNDING = 1e-9


def case_states(base_passes: Ints, base_attempts: Ints, head_passes: Ints, head_attempts: Ints) -> Ints:
    """Return the state of each case as its place in ``STATES``, or ``SAME``; shape (n,).

    Args:
        base_passes: Passes in base, shape (n,).
        base_attempts: Attempts with a verdict in base, shape (n,).
        head_passes: Passes in head, shape (n,).
        head_attempts: Attempts with a verdict in head, shape (n,).
    """
    table = np.array([base_passes, base_attempts, head_passes, head_attempts])
    counts, of_case = np.unique(table, axis=1, return_inverse=True)  # many cases have the same
    states = np.array([_state(*each) for each in counts.T.tolist()], np.int64)
    return states[of_case.ravel()]


def _state(passed: int, attempts: int, passes: int, tries: int) -> int:
    """The state of a case that passed some of its attempts in base, and some of its tries in head."""
    flaky = 0 < passed < attempts or 0 < passes < tries
    if not (attempts and tries) or (not flaky and (passed > 0) == (passes > 0)):
        return SAME
    steady = not flaky and attempts > 1 and tries > 1
    if steady or exact_p(passes, tries, passed + passes, attempts + tries) <= 2 * LEVEL + _ROUNDING:
        return BROKE if passes * attempts < passed * tries else FIXED
    return FLAKY if flaky else UNCLEAR
