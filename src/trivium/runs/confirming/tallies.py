"""Counts what was attempted before, and what confirming attempts add, by case."""

from collections.abc import Sequence

from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.comparing.case_counts import CaseCounts, CaseTotals, case_counts
from trivium.runs.comparing.compare import clusters_of
from trivium.runs.comparing.earlier_runs import earlier_runs
from trivium.runs.comparing.pairing import Methods, Pairing, ScoredRun
from trivium.runs.run import Run
from trivium.suites.settings import Settings
from trivium.trust.arrays import Floats


class Tallies:
    """The attempts at the cases of two runs, by the metric that decides.

    Args:
        base: The run compared with.
        head: The run in question.
        metric: The metric.

    Attributes:
        counts: All attempts that were made before, with those of confirming runs that are finished.
        places: Place of each case in the counts.
    """

    def __init__(self, base: Run, head: Run, metric: str) -> None:
        self._methods = Methods()
        left, right = (ScoredRun.of(run, self._methods) for run in (base, head))
        pairing = Pairing(left, right, clusters=dict(clusters_of(head, right)))
        self.counts: CaseCounts = case_counts(
            left, right, pairing, self._methods, metric, earlier=earlier_runs(base, head)
        )
        self.places = {case: place for place, case in enumerate(self.counts.cases)}
        self._totals = CaseTotals(pairing, self._methods, metric)

    def of(self, settings: Settings, evaluations: Sequence[tuple[int, AnyEvaluation]]) -> Floats:
        """Number, sum and sum of squares of the values of further attempts by case, shape (3, n).

        Args:
            settings: Settings of their run.
            evaluations: Their evaluations, each with the position of its case.
        """
        ordered = sorted(evaluations, key=lambda each: (each[0], each[1].repeat))
        return self._totals.of_scores(ScoredRun(settings, ordered, self._methods))
