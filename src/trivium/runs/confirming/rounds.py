"""Counts the attempts at the cases of two runs, chooses which are made next, and says when to stop.

Definition: docs/definitions/decisions.md#confirm.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.comparing.compare import clusters_of
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.comparing.decision import Options
from trivium.runs.comparing.earlier_runs import CaseCounts, CaseTotals, earlier_runs
from trivium.runs.comparing.pairing import Methods, Pairing, ScoredRun
from trivium.runs.run import Run
from trivium.store.records import End
from trivium.suites.settings import Settings
from trivium.trust.arrays import Floats
from trivium.trust.case_model import CasePosterior, NormalMixture, Tally, case_posterior, expected_saving

SMALLEST_BATCH = 4
LARGEST_SHARE = 6
"""A batch has an attempt for each so many cases, and at least ``SMALLEST_BATCH``."""

DOUBT = 0.05
"""Probability of being wrong at which ``balanced`` asks no further."""

LEAST_SAVING = 0.01
"""Share of the cost of a wrong decision, or probability of a proof, for which it pays to ask further."""

Chosen = tuple[int, int]
"""Side, 0 for base and 1 for head, and place of a case."""


def decided(difference: NormalMixture, options: Options) -> bool:
    """Whether no further attempt is wanted: nearly sure under ``balanced``, else proven."""
    loss = difference.below(-options.margin)
    if options.decide.policy == "balanced":
        return not DOUBT <= loss <= 1 - DOUBT
    error = (1 - options.level) / 2
    return loss <= error or difference.below(0) >= 1 - error


def answered(comparison: Comparison, options: Options) -> bool:
    """Whether a comparison without further attempts is decided as surely."""
    if options.decide.policy != "balanced":
        return comparison.proof != "inconclusive"
    known = comparison.metrics[comparison.decided_by[0]].probabilities
    return bool(known) and (max(known) < DOUBT or min(known) > 1 - DOUBT)


def _saving(difference: NormalMixture, explained: float, options: Options) -> float:
    """What more attempts save on average, in the cost of a wrong decision; their chance of a proof.

    Args:
        difference: The distribution of the difference.
        explained: Share of its variance that the attempts take away, in [0, 1].
        options: Options of the comparison.
    """
    costs, mean = options.decide.costs, difference.mean
    if options.decide.policy == "balanced":
        loss = difference.below(-options.margin)
        return expected_saving(loss, explained, ship=costs.ship, block=costs.block)
    spread = sqrt(difference.variance)
    moves, reach = NormalDist(mean, spread * sqrt(explained)), spread * sqrt(1 - explained)
    sure = NormalDist().inv_cdf((1 + options.level) / 2) * reach
    return 1 - moves.cdf(sure - options.margin) + moves.cdf(-sure)


class Rounds:
    """Chooses batches of attempts: where a case broke or failed by chance, then where they tell most.

    Args:
        counts: All attempts made before, by case.
        options: Options of the comparison that is to be decided.
        asked: Whether base and head can be asked again.
        calls: Maximum number of attempts to make.
        first: Whether a first batch is made even if all attempts made before decide.

    Attributes:
        calls: Attempts that may still be made.
        end: Why the last batch was empty; None before.
    """

    def __init__(
        self,
        counts: CaseCounts,
        options: Options,
        *,
        asked: Sequence[bool],
        calls: int,
        first: bool = False,
    ) -> None:
        self._tallies: list[Tally] = [counts.base, counts.head]
        self._groups, self._options = counts.groups, options
        known = (counts.base.attempts > 0) & (counts.head.attempts > 0)
        self._open = np.outer(asked, known)
        self.calls, self._first = calls, first
        self.end: End | None = None

    def take(self, side: int, totals: Floats, cases: Sequence[int]) -> None:
        """Take attempts that were made.

        A case whose attempts gave no value is not asked again on that side.

        Args:
            side: 0 for base, 1 for head.
            totals: Number, sum and sum of squares of their values by case, shape (3, n).
            cases: Places of the cases that were asked.
        """
        tally = self._tallies[side]
        number = np.rint(totals[0]).astype(np.int64)
        self._tallies[side] = Tally(
            tally.attempts + number, tally.sums + totals[1], tally.squares + totals[2]
        )
        asked = np.bincount(np.asarray(cases, np.int64), minlength=number.size)
        self._open[side] &= (asked == 0) | (number > 0)

    def next(self) -> list[Chosen]:
        """The next batch, without the same case twice on a side; empty if there is none, see ``end``."""
        posterior = case_posterior(self._tallies[0], self._tallies[1], self._groups)
        about_these = self._options.decide.about == "these"
        difference = posterior.these if about_these else posterior.like_these
        gains = np.where(self._open, posterior.gains, 0.0).ravel()
        size = min(self.calls, max(SMALLEST_BATCH, self._groups.size // LARGEST_SHARE))
        best = np.lexsort((-gains, ~(self._unclear & self._open).ravel()))[:size]
        best = best[gains[best] > 0]
        sure = decided(difference, self._options)
        if sure and not self._first:
            self.end = "decided"
        elif not self.calls:
            self.end = "calls"
        elif not best.size:
            self.end = "nothing"
        elif not sure and not about_these and self._needs_cases(posterior):
            self.end = "cases"
        elif self._costs_more(difference, float(gains[best].sum()), best.size):
            self.end = "costs"
        else:
            self.calls, self._first = self.calls - best.size, False
            return [(int(at) // self._groups.size, int(at) % self._groups.size) for at in best]
        return []

    @property
    def _unclear(self) -> npt.NDArray[np.bool_]:
        """Where a second attempt tells a case that broke from one that failed by chance; shape (2, n)."""
        base, head = self._tallies
        lost = (base.attempts > 0) & (base.sums == base.attempts) & (head.attempts > 0) & (head.sums == 0)
        return np.array([lost & (base.attempts == 1), lost & (head.attempts == 1)])

    def _needs_cases(self, posterior: CasePosterior) -> bool:
        """Whether even knowing these cases for certain would hardly help to decide about others."""
        known = min(1.0, posterior.these.variance / posterior.like_these.variance)
        decide = self._options.decide
        least = LEAST_SAVING * (
            min(decide.costs.ship, decide.costs.block) if decide.policy == "balanced" else 1
        )
        return _saving(posterior.like_these, known, self._options) < least

    def _costs_more(self, difference: NormalMixture, gain: float, calls: int) -> bool:
        """Whether so many calls cost more than the wrong decisions that they are expected to prevent."""
        decide = self._options.decide
        if not decide.costs.call or decide.policy != "balanced":
            return False
        saving = _saving(difference, min(1.0, gain / difference.variance), self._options)
        return calls * decide.costs.call > saving


class Tallies:
    """The attempts at the cases of two runs, by the metric that decides.

    Args:
        base: The baseline run.
        head: The candidate run.
        metric: The metric.

    Attributes:
        counts: All attempts that were made before, with those of confirming runs that are finished.
        places: Place of each case in the counts.
    """

    def __init__(self, base: Run, head: Run, metric: str) -> None:
        self._methods = Methods()
        left, right = (ScoredRun.of(run, self._methods) for run in (base, head))
        pairing = Pairing(left, right, clusters=dict(clusters_of(head, right)))
        self._totals = CaseTotals(pairing, self._methods, metric)
        self.counts: CaseCounts = self._totals.of_runs(left, right, earlier_runs(base, head))
        self.places = {case: place for place, case in enumerate(self.counts.cases)}

    def of(self, settings: Settings, evaluations: Sequence[tuple[int, AnyEvaluation]]) -> Floats:
        """Number, sum and sum of squares of the values of further attempts by case, shape (3, n).

        Args:
            settings: Settings of their run.
            evaluations: Their evaluations, each with the position of its case.
        """
        ordered = sorted(evaluations, key=lambda each: (each[0], each[1].repeat))
        return self._totals.of_scores(ScoredRun(settings, ordered, self._methods))
