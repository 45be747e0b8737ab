"""An attempt as a test holds it."""

from math import nan
from typing import Any

import pytest

from trivium.agents.attempt import Attempt
from trivium.errors import suggest
from trivium.metrics.evaluation import Evaluation
from trivium.reports.untrusted import one_line
from trivium.reports.wording import number
from trivium.suites.case import Case

SHOWN = 160
"""Characters of an output that a failing assertion shows."""


class Value(float):
    """A score of an attempt: a number that knows why it is so low. Not a number where there is none."""

    name: str
    why: str
    attempt: "TestedAttempt"

    def trivium_explanation(self, op: str, other: object) -> list[str]:
        """The lines that a failing assertion shows."""
        found = number(self) if self == self else "without a value"  # noqa: PLR0124 - only nan is not itself
        lines = [f"{self.name} is {found}, and not {op} {other} ({self.attempt.name})"]
        lines += [self.why] if self.why else []
        lines.append(f"output: {one_line(self.attempt.attempt.text, at_most=SHOWN)}")
        lines += [f"reference: {one_line(text, at_most=SHOWN)}" for text in self.attempt.case.references[:2]]
        return lines


class TestedAttempt:
    """What the agent did for a case once, with its scores.

    Attributes:
        case: What was asked.
        attempt: What the agent did.
        evaluation: All its scores, the composite and the verdict.
        passed: The verdict of the suite's ``pass`` rule; None when its metric has no value.
        why: Why it did not pass, in a few words; empty when it did.
        failure: Why there is nothing to look at (the agent failed, nothing was recorded), or None.
    """

    __test__ = False

    def __init__(self, case: Case, attempt: Attempt, evaluation: Evaluation, why: str) -> None:
        self.case = case
        self.attempt = attempt
        self.evaluation = evaluation
        self.passed = evaluation.passed
        self.why = why
        self.failure = None if attempt.error is None else f"the agent failed: {attempt.error}"

    @property
    def name(self) -> str:
        """The case, and which repeat where it is not the first."""
        return (
            f"{one_line(self.case.id)}#{self.attempt.repeat}"
            if self.attempt.repeat
            else one_line(self.case.id)
        )

    @property
    def output(self) -> Any:
        """What the agent gave back."""
        return self.attempt.output

    def __getitem__(self, metric: str) -> Value:
        """A score by its metric; ``composite`` is one too.

        Raises:
            LookupError: If nothing of that name was scored.
        """
        scores = self.evaluation.scores
        if metric == "composite":
            value, why = self.evaluation.composite.value, self.evaluation.composite.reason
        elif metric in scores:
            value, why = scores[metric].value, scores[metric].reason
        else:
            raise LookupError(f'nothing is called "{metric}".{suggest(metric, [*scores, "composite"])}')
        made = Value(nan if value is None else value)
        made.name, made.why, made.attempt = metric, why or "", self
        return made

    def __repr__(self) -> str:
        verdict = {True: "passed", False: "did not pass", None: "has no verdict"}[self.passed]
        return f"<{self.name} {verdict}{': ' if self.why else ''}{one_line(self.why)}>"


def record_attempt(item: pytest.Item, attempt: TestedAttempt, *, run: str) -> None:
    """Properties of the test for JUnit XML and other reports."""
    composite = attempt.evaluation.composite.value
    found: dict[str, object] = {
        "run": run,
        "case": one_line(attempt.case.id),
        "repeat": attempt.attempt.repeat,
    }
    found["seconds"] = attempt.attempt.seconds
    found |= {f"score.{name}": score.value for name, score in attempt.evaluation.scores.items()}
    found["composite"] = composite
    item.user_properties += [(f"trivium.{name}", value) for name, value in found.items() if value is not None]
