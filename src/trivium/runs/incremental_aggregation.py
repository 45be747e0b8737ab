"""Aggregates evaluations while they are scored, in one process or in several."""

# ruff: noqa: SLF001 - what is merged is of the same class

from collections.abc import Sequence

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Evaluation
from trivium.runs.aggregation import Aggregation, AnyEvaluation
from trivium.store.records import outline_of
from trivium.suites.settings import Settings

Place = tuple[int, str]
"""Position in the suite and cluster of a case."""


class _Case:
    """The evaluations of one case, repeats of one another."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.evaluations: list[AnyEvaluation] = []


class IncrementalAggregation:
    """Aggregates evaluations while they are scored, as long as they arrive in suite order.

    This saves reading them back from the store. Recorded outputs mostly arrive in suite order. Attempts of an
    agent that answers many cases concurrently mostly do not: then aggregation stops at the first one out of
    order.

    Each process that scores a part of a run's attempts aggregates them likewise, and the main process
    only merges the parts. The first and the last case of a part are left unaggregated, because the parts
    before and after may have more attempts of them.

    Args:
        settings: Settings of the run.
        part: Whether it is of a part of the run's attempts.
        unordered: Whether aggregation is impossible from the start, as in a resumed run.
    """

    def __init__(self, settings: Settings, *, part: bool = False, unordered: bool = False) -> None:
        self._part = part
        self._aggregation = None if unordered else Aggregation(settings, part=part)
        self._repeats = settings.repeats
        self._complete_cases = 0
        """Number of cases that have all their attempts, of those aggregated."""
        self._latest = (-1, 0)
        self._first: _Case | None = None
        """The first case of a part, once there is another."""
        self._last: _Case | None = None
        self.repeats = unordered
        """Whether there may be several attempts of a case."""

    @property
    def active(self) -> bool:
        """Whether evaluations are still aggregated."""
        return self._aggregation is not None

    def add(
        self, places: Sequence[Place], attempts: Sequence[Attempt], evaluations: Sequence[Evaluation]
    ) -> None:
        """Add evaluations.

        Args:
            places: Position in the suite and cluster of the case of each.
            attempts: The attempt of each.
            evaluations: The evaluations, in the order of storing.
        """
        for place, attempt, evaluation in zip(places, attempts, evaluations, strict=True):
            if self._aggregation is None:
                return
            self._aggregation.agent.add(attempt)
            self._add(place, evaluation)
        if self._aggregation is not None:
            self._aggregation.flush()

    def merge(self, part: "IncrementalAggregation") -> None:
        """Add the attempts of a part that follow those added."""
        self.repeats |= part.repeats
        if part._aggregation is None:
            self._stop()
        self._add_all(part._first or part._last)
        if self._aggregation is not None and part._aggregation is not None:
            if len(part._aggregation.clusters):
                self._end_case(self._aggregation)
            self._aggregation.merge(part._aggregation)
            self._complete_cases += part._complete_cases
        self._add_all(part._last if part._first else None)

    def finished(self) -> "IncrementalAggregation":
        """Itself, of a part that is complete, as it is sent to the main process."""
        if self._aggregation is not None:
            self._aggregation.flush()
        for case in (self._first, self._last):
            if case is not None:
                case.evaluations = [outline_of(each) for each in case.evaluations]
        return self

    def aggregation(self, cases: int) -> Aggregation | None:
        """Return the complete aggregation, or None if the evaluations must be read from the store.

        The latter if any was out of order, or if attempts are missing: their cases were not added.

        Args:
            cases: Number of cases of the suite.
        """
        if self._aggregation is not None:
            self._end_case(self._aggregation)
            self._aggregation.flush()
            self._aggregation.cases = cases
        return self._aggregation if self._complete_cases == cases else None

    def _add(self, place: Place, evaluation: AnyEvaluation) -> None:
        if self._aggregation is None:
            return
        before, self._latest = self._latest, (place[0], evaluation.repeat)
        if self._latest <= before:
            self._stop()
            return
        case = self._last
        if case is not None and case.place[0] == place[0]:
            self.repeats = True
        else:
            self._end_case(self._aggregation)
            case = self._last = _Case(place)
        case.evaluations.append(evaluation)

    def _add_all(self, case: _Case | None) -> None:
        if case is not None:
            for evaluation in case.evaluations:
                self._add(case.place, evaluation)

    def _end_case(self, aggregation: Aggregation) -> None:
        """Aggregate the last case, to which no attempt is added any more."""
        case, self._last = self._last, None
        if case is None:
            return
        if self._part and self._first is None:
            self._first = case
            return
        aggregation.add(case.place[1], case.evaluations)
        self._complete_cases += len(case.evaluations) >= self._repeats

    def _stop(self) -> None:
        self._aggregation, self._first, self._last, self.repeats = None, None, None, True
