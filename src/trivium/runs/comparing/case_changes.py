"""Finds what differs between two runs: the cases by score, most changed first, and whether anything does."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import zip_longest

import msgspec
import numpy as np

from trivium.agents.attempt import Attempt
from trivium.runs.comparing.case_counts import CaseCounts
from trivium.runs.comparing.case_states import FIXED, SAME, STATES, case_states
from trivium.runs.comparing.moved_cases import CaseReader, ChangeColumns, MovedCases
from trivium.runs.comparing.pairing import PairedScores, ScoredRun
from trivium.runs.comparing.rows import Ints
from trivium.runs.run import Run
from trivium.traces.trace import Trace

ROUNDING = 1e-9
"""Smaller differences of a score are due to rounding."""


def find_moved_cases(
    figures: Mapping[str, PairedScores],
    by: Sequence[str],
    base: ScoredRun,
    head: ScoredRun,
    runs: tuple[Run, Run],
    *,
    counts: CaseCounts | None = None,
) -> MovedCases:
    """Find the cases whose deciding metrics changed, or that broke or were fixed by all attempts.

    Args:
        figures: Values by metric, over the same cases.
        by: The deciding metrics; the first decides the order.
        base: Scores of base.
        head: Scores of head.
        runs: Base and head, from which the texts are read.
        counts: Attempts and passes of the same cases; None without verdicts.
    """
    deltas = np.nan_to_num(np.array([figures[name].deltas for name in by]))
    deltas[np.abs(deltas) <= ROUNDING] = 0
    first, others = np.abs(deltas[0]), np.abs(deltas[1:]).max(axis=0, initial=0)
    tried = np.zeros((6, first.size), np.int64) if counts is None else _tried(counts)
    states = case_states(tried[0], tried[1], tried[3], tried[4])
    decisive = np.argmax(deltas != 0, axis=0)  # the first metric that changed
    changes = np.take_along_axis(deltas, decisive[None], axis=0)[0]
    # Earlier attempts may show that a case broke, or was fixed, whose values are the same in both runs.
    changes = np.where(changes != 0, changes, np.where(states == FIXED, 1, -1) * (states <= FIXED))
    better = changes > 0
    order = np.lexsort((-others, better & (first > 0), -first, states))
    moved = order[changes[order] != 0]
    cases = figures[by[0]].cases
    paired = np.any([figures[name].has_pair for name in by], axis=0)
    rose = int(np.count_nonzero(better[moved]))
    found = MovedCases(
        by=tuple(by),
        compared=int(np.count_nonzero(paired)),
        better=rose,
        worse=moved.size - rose,
        states=dict(zip(STATES, np.bincount(states[moved], minlength=SAME)[:SAME].tolist(), strict=True)),
        earlier=int(tried[[2, 5]].sum()),
    )
    found.__dict__["columns"] = ChangeColumns(
        cases=[cases[at] for at in moved],
        by=tuple(by),
        decisive=decisive[moved].astype(np.int32),
        better=better[moved],
        base=np.array([figures[name].base[moved] for name in by]),
        head=np.array([figures[name].head[moved] for name in by]),
        states=states[moved],
        tried=tried[:, moved].astype(np.int32),
    )
    found.__dict__["reader"] = CaseReader(*runs, base.cases.of, head.cases.of)
    return found


def _tried(counts: CaseCounts) -> Ints:
    """Passes, attempts and earlier attempts of base, then those of head; shape (6, n)."""
    sides = (counts.base, counts.head)
    return np.array([row for each in sides for row in (each.passes, each.attempts, each.earlier)])


def unchanged(base: Run, head: Run) -> bool:
    """Whether both runs have the same attempts, in the same order, with the same contents and steps.

    Times, ids of spans and usage are ignored. Reading stops at the first difference.
    """
    return all(
        ours is not None and theirs is not None and _digest(ours) == _digest(theirs)
        for ours, theirs in zip_longest(base.attempts(), head.attempts())
    )


def _digest(attempt: Attempt) -> bytes:
    trace = None if attempt.trace is None else _steps(attempt.trace)
    content = (attempt.case, attempt.repeat, attempt.output, attempt.error, attempt.reward, trace)
    return blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=16).digest()


def _steps(trace: Trace) -> tuple[object, object]:
    spans = [(span.kind, span.name, span.agent, span.ok, span.input, span.output) for span in trace.spans]
    messages = [(each.sender, each.receiver, each.type, each.content) for each in trace.messages]
    return spans, messages
