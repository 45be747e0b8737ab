"""Told: the attempts of a run as traces to be written, with every score as an event."""

from collections.abc import Iterator
from typing import Any

from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Evaluation
from trivium.metrics.score import Score
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.traces.trace import Trace
from trivium.traces.writers.told import Told, resource

EVENT = "gen_ai.evaluation.result"


def told_of_run(store: Store, run: RunRecord) -> Iterator[Told]:
    """Every scored attempt of a run, in the order of the suite, one at a time."""
    who = resource(
        **{"trivium.run.id": run.id, "trivium.run.kind": run.kind, "trivium.suite": run.suite_name}
    )
    for case, attempt, evaluation in store.views(run):
        yield told_of_attempt(run, case, attempt, evaluation, who)


def told_of_attempt(
    run: RunRecord, case: Case, attempt: Attempt, evaluation: Evaluation, who: dict[str, Any]
) -> Told:
    """An attempt with its scores.

    Args:
        run: Whose start stands for that of an attempt whose trace does not know its own.
        case: What was asked.
        attempt: What was done.
        evaluation: Its scores.
        who: Facts about the run.
    """
    facts: dict[str, Any] = {
        "trivium.case.id": case.id,
        "trivium.repeat": attempt.repeat,
        "trivium.attempt.seconds": attempt.seconds,
        "trivium.attempt.error": attempt.error,
        "trivium.recommendation": evaluation.composite.recommendation,
    }
    return Told(
        trace=attempt.trace or Trace(),
        key=f"{run.id} {attempt.repeat} {case.id}",
        begun=run.created,
        seconds=attempt.seconds,
        input=case.input,
        output=attempt.output,
        error=attempt.error,
        name=f"attempt {case.id}",
        resource=who,
        attributes={key: value for key, value in facts.items() if value is not None},
        events=[(EVENT, fields) for fields in results(evaluation)],
    )


def results(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The attributes of each result, by the GenAI conventions.

    A score is labelled with its status; the composite with its recommendation; ``passed`` is the verdict of
    the suite's rule. What has no value has none there either.
    """
    folded = evaluation.composite
    found = [_of_score(score) for score in evaluation.scores.values()]
    found.append(_result("composite", folded.value, folded.recommendation or folded.status, folded.reason))
    if evaluation.passed is not None:
        verdict = "pass" if evaluation.passed else "fail"
        found.append(_result("passed", float(evaluation.passed), verdict, evaluation.failed))
    return found


def _of_score(score: Score) -> dict[str, Any]:
    further = {"trivium.score.tier": score.tier, "trivium.score.method": score.method}
    if score.status == "error":
        further["error.type"] = "_OTHER"
    found = _result(score.name, score.value, score.status, score.reason)
    return found | {key: value for key, value in further.items() if value is not None}


def _result(name: str, value: float | None, label: str, explanation: str | None) -> dict[str, Any]:
    fields = {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": value,
        "gen_ai.evaluation.score.label": label,
        "gen_ai.evaluation.explanation": explanation,
    }
    return {key: value for key, value in fields.items() if value is not None}
