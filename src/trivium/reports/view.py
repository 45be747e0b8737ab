"""An attempt with all data that reports show."""

from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.contexts import contexts_of, numbered_texts
from trivium.errors import InputError
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.metrics.metric import Score
from trivium.reports.document.blocks import ANSWERS, VERDICTS, Tone
from trivium.runs.aggregation import why_no_verdict, why_not_passed
from trivium.runs.run import Run
from trivium.suites.case import Case
from trivium.suites.settings import Settings


class EvaluationView(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt with its case, its scores and its verdict.

    Attributes:
        case: The case.
        attempt: The agent's attempt.
        scores: By metric, in the order of the suite.
        composite: The weighted mean of the scores.
        passed: The verdict; None if the metric of the pass rule has no value.
        why: Why it did not pass, or has no verdict, if known.
        composite_shown: Whether the suite uses the composite.
    """

    case: Case
    attempt: Attempt
    scores: dict[str, Score]
    composite: Composite
    passed: bool | None = None
    why: str | None = None
    composite_shown: bool = True

    @property
    def verdict(self) -> str:
        """``error`` (the attempt failed), ``failed``, ``undecided`` or ``passed``."""
        if self.attempt.failed:
            return "error"
        if self.passed is None:
            return "undecided"
        return "passed" if self.passed else "failed"

    @property
    def tone(self) -> Tone:
        """The tone of the verdict."""
        return ANSWERS[VERDICTS[self.verdict].answer][1]

    @property
    def retrieved(self) -> str:
        """The documents that the agent retrieved, as judges see them; empty without any, or if unreadable."""
        try:
            return numbered_texts(contexts_of(self.attempt) or ())
        except InputError:
            return ""

    @property
    def reason(self) -> str | None:
        """Why it did not pass, if known; None if it passed."""
        if self.passed:
            return None
        if self.attempt.error is not None or self.why is not None:
            return self.attempt.error or self.why
        for score in self.scores.values():
            if score.status == "error":
                return f"{score.name}: {score.reason or 'error'}"
        success = self.scores.get("success")
        return success.reason if success is not None else None


def anchor(case: str, repeat: int) -> str:
    """The anchor of an attempt on the page of its run."""
    identity = f"{repeat} {case}".encode(errors="surrogatepass")
    return f"attempt-{blake2b(identity, digest_size=8).hexdigest()}"


def view_of(
    row: tuple[Case, Attempt, Evaluation], settings: Settings, *, with_trace: bool = True
) -> EvaluationView:
    """An attempt with what reports show of it.

    Args:
        row: The case, the attempt and its evaluation.
        settings: Those of the run.
        with_trace: Whether its trace is among that.
    """
    case, attempt, evaluation = row
    why = why_no_verdict if evaluation.passed is None else why_not_passed
    return EvaluationView(
        case=case,
        attempt=attempt if with_trace else msgspec.structs.replace(attempt, trace=None),
        scores=evaluation.scores,
        composite=evaluation.composite,
        passed=evaluation.passed,
        why=None if evaluation.passed else why(evaluation, settings),
        composite_shown=settings.asks_for_composite,
    )


def views_of(run: Run, *, worst_first: bool = False) -> Iterator[EvaluationView]:
    """Yield the attempts of a run, in the order of the suite or the worst first."""
    for row in run.store.views(run.record, worst_first=worst_first):
        yield view_of(row, run.record.settings)
