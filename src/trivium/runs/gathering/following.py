"""Following: the evaluations of a run gathered while they are scored, so that they need not be read back."""

from collections.abc import Sequence

from trivium.metrics.evaluation import Evaluation
from trivium.runs.gathering.gathered import Gathered
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite


class Following:
    """Gathers what is scored as it would be read back, for as long as it comes in that order.

    That of a recording mostly does; that of an agent which is asked many things at once mostly does not.

    Args:
        suite: Whose cases are scored.
        settings: Of the run.
        lost: Whether it cannot be followed from the start.
    """

    def __init__(self, suite: Suite, settings: Settings, *, lost: bool) -> None:
        self._suite = suite
        self._gathered = None if lost else Gathered(settings)
        self._repeats = settings.repeats
        self._whole = 0
        """Cases of which every attempt is there that is due."""
        self._latest = (-1, 0)
        self._cluster = ""
        self._together: list[Evaluation] = []
        self.repeats = lost
        """Whether there may be several attempts of a case."""

    def follow(self, cases: Sequence[tuple[int, Case]], evaluations: Sequence[Evaluation]) -> None:
        """Take in evaluations.

        Args:
            cases: Position in the suite and case of each.
            evaluations: As many, the next ones that are stored.
        """
        if self._gathered is None:
            return
        for (position, case), evaluation in zip(cases, evaluations, strict=True):
            before, self._latest = self._latest, (position, evaluation.repeat)
            if self._latest <= before:
                self._gathered, self._together, self.repeats = None, [], True
                return
            if position == before[0]:
                self._together.append(evaluation)
                self.repeats = True
            else:
                self._take(self._gathered)
                self._cluster = self._suite.group_of(case)
                self._together = [evaluation]
        self._gathered.settle()

    def gathered(self) -> Gathered | None:
        """What was gathered when everything was scored, or None when it must be read back.

        Where attempts are missing it must be, for their cases were not met.
        """
        if self._gathered is not None:
            self._take(self._gathered)
            self._gathered.settle()
            self._gathered.cases = len(self._suite)
        return self._gathered if self._whole == len(self._suite) else None

    def _take(self, gathered: Gathered) -> None:
        if self._together:
            gathered.take(self._cluster, self._together)
            self._whole += len(self._together) >= self._repeats
