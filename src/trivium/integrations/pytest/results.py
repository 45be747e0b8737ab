"""The fixtures' results: a finished run and one attempt, whose numbers explain failing assertions."""

from functools import cached_property
from heapq import nlargest, nsmallest
from math import nan
from typing import Any

import msgspec
import pytest

from trivium.agents.attempt import Attempt
from trivium.errors import TriviumError, suggest
from trivium.metrics.evaluation import Evaluation
from trivium.reports import wording
from trivium.reports.wording import number
from trivium.runs.aggregation import why_not_passed
from trivium.runs.columns import Column
from trivium.runs.gates import gate_result
from trivium.runs.run import Run
from trivium.runs.summarize import columns_of
from trivium.runs.summary import GateAnswer, Summary
from trivium.safe_text import one_line
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Policy, Settings

SHOWN = 160
"""Characters of an output that a failing assertion shows."""

WORST = 4
"""Attempts that a failing gate names; pytest itself cuts an explanation after eight lines."""


class ScoreValue(float):
    """A score of an attempt as a float with its reason; NaN where the score has no value."""

    name: str
    why: str
    attempt: "TestedAttempt"

    def trivium_explanation(self, op: str, other: object) -> list[str]:
        """Return the lines that a failing assertion shows."""
        value = number(self) if self == self else "without a value"  # noqa: PLR0124 - only nan is not itself
        lines = [f"{self.name} is {value}, and not {op} {other} ({self.attempt.name})"]
        lines += [self.why] if self.why else []
        lines.append(f"output: {one_line(self.attempt.attempt.text, at_most=SHOWN)}")
        lines += [f"reference: {one_line(text, at_most=SHOWN)}" for text in self.attempt.case.references[:2]]
        return lines


class TestedAttempt:
    """One attempt of an agent at a case, with its scores.

    Attributes:
        case: The case.
        attempt: Output, time and trace of the agent.
        evaluation: Scores, composite and verdict.
        passed: Verdict of the suite's ``pass`` rule; None if its metric has no value.
        why: Why the attempt did not pass, in a few words; empty if it passed.
        failure: Why there is no output (the agent failed, no output was recorded), or None.
    """

    __test__ = False

    def __init__(self, case: Case, attempt: Attempt, evaluation: Evaluation, why: str) -> None:
        self.case = case
        self.attempt = attempt
        self.evaluation = evaluation
        self.passed = evaluation.passed
        self.why = why
        whose = "the attempt has no fair outcome" if attempt.is_unfair else "the agent failed"
        self.failure = None if attempt.error is None else f"{whose}: {attempt.error}"

    @property
    def name(self) -> str:
        """The case id, with the repeat unless it is the first."""
        return one_line(self.case.id) + (f"#{self.attempt.repeat}" if self.attempt.repeat else "")

    @property
    def output(self) -> Any:
        """The output of the agent."""
        return self.attempt.output

    def __getitem__(self, metric: str) -> ScoreValue:
        """Return the score of a metric, or the ``composite``.

        Raises:
            LookupError: If there is no score of that name.
        """
        scores = self.evaluation.scores
        if metric == "composite":
            value, why = self.evaluation.composite.value, self.evaluation.composite.reason
        elif metric in scores:
            value, why = scores[metric].value, scores[metric].reason
        else:
            raise LookupError(f'there is no score "{metric}".{suggest(metric, [*scores, "composite"])}')
        score = ScoreValue(nan if value is None else value)
        score.name, score.why, score.attempt = metric, why or "", self
        return score

    def __repr__(self) -> str:
        verdict = {True: "passed", False: "did not pass", None: "has no verdict"}[self.passed]
        return f"<{self.name} {verdict}{': ' if self.why else ''}{one_line(self.why)}>"


def record_attempt(item: pytest.Item, attempt: TestedAttempt, *, run: str) -> None:
    """Add properties to the test for JUnit XML and other reports."""
    properties: dict[str, object] = {
        "run": run,
        "case": one_line(attempt.case.id),
        "repeat": attempt.attempt.repeat,
        "seconds": attempt.attempt.seconds,
        **{f"score.{name}": score.value for name, score in attempt.evaluation.scores.items()},
        "composite": attempt.evaluation.composite.value,
    }
    item.user_properties += [
        (f"trivium.{name}", value) for name, value in properties.items() if value is not None
    ]


class EvaluatedRun(Run):
    """A finished run whose metrics can be asserted: ``assert run["pass_rate"] >= 0.85``.

    Args:
        store: The store that holds the run.
        record: Its record in the store.
        policy: How gates are decided; None for the suite's policy.
    """

    def __init__(self, store: Store, record: RunRecord, *, policy: Policy | None = None) -> None:
        super().__init__(store, record)
        self.policy = policy

    def __getitem__(self, name: str) -> "RunFigure":
        """Return a metric, ``composite`` or ``pass_rate`` with its interval.

        Raises:
            LookupError: If the run has no values of that name.
        """
        if name not in self._columns:
            raise LookupError(f'the run has no "{name}".{suggest(name, self._columns)}')
        return RunFigure(self, name, self._columns[name], self.settings)

    def require_gates(self) -> None:
        """Fail unless every gate of the suite passes.

        Raises:
            TriviumError: If the suite has no gates.
        """
        gates = self.summary(policy=self.policy).gates
        if not gates:
            raise TriviumError(f'suite "{self.record.suite_name}" has no gates')
        failed = [gate for gate in gates if not self.accepts(gate)]
        if failed:
            pytest.fail("\n".join(line for gate in failed for line in self.explain(gate)), pytrace=False)

    def accepts(self, gate: GateAnswer) -> bool:
        """Whether an answer counts as a pass."""
        return gate.answer == "pass"

    def explain(self, gate: GateAnswer) -> list[str]:
        """Explain a gate: value, threshold, how many cases would settle it, worst attempts, run id."""
        name, sign, threshold = gate.gate.rsplit(" ", 2)
        required = f"required: {'at least' if sign == '≥' else 'at most'} {threshold}"
        lines = [f"{gate.answer}: {one_line(name)} {wording.gate_sentence(gate)}; {required}"]
        lines += [
            f"  {one_line(line, at_most=100)}" for line in self.worst_attempts(name, highest=sign == "≤")
        ]
        return [*lines, f"  run {self.id}"]

    def worst_attempts(self, name: str, *, highest: bool = False) -> list[str]:
        """Return the attempts with the lowest (or highest) values, each as a line with its reason."""
        if name == "pass_rate":
            failures = self.summary().failures[:WORST]
            return [f"{wording.attempt_name(each.case, each.repeat)}: {each.why}" for each in failures]
        rows: list[tuple[float, str]] = []
        for _, outline in self.store.outlines(self.record):
            score = outline.composite if name == "composite" else outline.scores.get(name)
            if score is not None and score.value is not None:
                attempt = wording.attempt_name(outline.case, outline.repeat)
                why = outline.failed or why_not_passed(outline, self.settings) if not outline.passed else ""
                rows.append(
                    (score.value, f"{attempt}: {wording.number(score.value)}{' · ' if why else ''}{why}")
                )
        return [words for _, words in (nlargest if highest else nsmallest)(WORST, rows)]

    def summary(self, *, policy: Policy | None = None) -> Summary:
        """Return the summary that was stored when the run finished, its gates decided by a policy."""
        return self._summary.by(self.settings.decide, policy)

    @cached_property
    def settings(self) -> Settings:
        """The suite's settings at the time of the run."""
        return self.record.settings

    def attempt(self, case: str, repeat: int) -> TestedAttempt:
        """Return the attempt of a case and repeat; fail the test if there is none."""
        attempt = self._attempts.get((case, repeat))
        if attempt is None:
            pytest.fail(f"run {self.id} has no attempt of {case}, repeat {repeat}", pytrace=False)
        return attempt

    @cached_property
    def _summary(self) -> Summary:
        return msgspec.convert(self.record.summary, Summary)

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return columns_of(self.store, self.record)

    @cached_property
    def _attempts(self) -> dict[tuple[str, int], TestedAttempt]:
        return {
            (case.id, attempt.repeat): TestedAttempt(
                case,
                attempt,
                evaluation,
                "" if evaluation.passed else why_not_passed(evaluation, self.settings),
            )
            for case, attempt, evaluation in self.store.views(self.record)
        }


class RunFigure:
    """A mean or rate of a run with its confidence interval, to assert a threshold on.

    ``>=`` and ``<=`` are true if a gate with this threshold passes by the policy.

    Attributes:
        name: The metric, ``composite`` or ``pass_rate``.
        value: The mean or rate, or None.
        ci95: Its interval (low, high) at the suite's level, or None.
    """

    def __init__(self, run: EvaluatedRun, name: str, column: Column, settings: Settings) -> None:
        self.name = name
        self.value = column.mean
        interval = column.interval(settings.level)
        self.ci95 = None if interval is None else (interval.low, interval.high)
        self._run = run
        self._column = column
        self._settings = settings

    def answer(self, *, at_least: float | None = None, at_most: float | None = None) -> GateAnswer:
        """Return pass, fail or inconclusive, and how many cases would settle it; give one threshold."""
        gate = gate_result(self.name, self._column, self._settings.level, at_least=at_least, at_most=at_most)
        return gate.by(self._settings.decide, self._run.policy)

    def __ge__(self, threshold: float) -> bool:
        return self._run.accepts(self.answer(at_least=threshold))

    def __le__(self, threshold: float) -> bool:
        return self._run.accepts(self.answer(at_most=threshold))

    def trivium_explanation(self, op: str, threshold: Any) -> list[str] | None:
        """Return the lines that a failing assertion shows."""
        if op not in {">=", "<="} or not isinstance(threshold, int | float):
            return None
        return self._run.explain(
            self.answer(at_least=threshold) if op == ">=" else self.answer(at_most=threshold)
        )

    def __repr__(self) -> str:
        return f"{self.name} {wording.number(self.value)} {wording.interval(self.ci95)}"


def record_run(item: pytest.Item, run: EvaluatedRun) -> None:
    """Add properties to the test for JUnit XML and other reports."""
    summary = run.summary()
    properties: dict[str, object] = {"trivium.run": run.id, "trivium.suite": one_line(summary.suite)}
    figures = {"pass_rate": (summary.pass_rate.value, summary.pass_rate.ci95)}
    if (composite := summary.shown_composite) is not None:
        figures["composite"] = (composite.mean, composite.ci95)
    figures |= {name: (figure.mean, figure.ci95) for name, figure in summary.metrics.items()}
    for name, (value, ci95) in figures.items():
        if value is not None:
            properties[f"trivium.{name}"] = value
        if ci95 is not None:
            properties[f"trivium.{name}.ci95"] = wording.interval(ci95)
    item.user_properties += list(properties.items())
