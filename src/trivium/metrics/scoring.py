"""Scoring: metrics applied to attempts, each failure kept where it happened."""

import logging
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from trivium.agents.attempt import Attempt
from trivium.agents.failing import may_be_ctrl_c, reason
from trivium.metrics.metric import Metric, Stopped, Subject
from trivium.metrics.outside import admitted, is_from_outside
from trivium.metrics.registry import build_metrics
from trivium.metrics.score import Score
from trivium.metrics.text.success import with_default_success
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.settings_reading import changed

log = logging.getLogger(__name__)

Scores = dict[str, Score]


def begin(metrics: Sequence[Metric], pairs: Sequence[tuple[Case, Attempt]]) -> list[Subject]:
    """Subjects to be scored, which metrics that look ahead have begun with.

    Args:
        metrics: As ``build_metrics`` orders them.
        pairs: Cases with the attempts to score.
    """
    subjects = [Subject(case, attempt, {}) for case, attempt in pairs]
    standing = [subject for subject in subjects if not subject.attempt.failed]
    for metric in metrics:
        if standing and metric.looks_ahead:
            metric.begin(standing)
    return subjects


def finish(metrics: Sequence[Metric], subjects: Sequence[Subject]) -> list[Scores]:
    """Scores of each subject by every metric, in the order of the metrics.

    An attempt that failed has success 0 and every other score skipped (spec: metrics, "What passed
    means"). A metric that raises gives that attempt's score status ``error``; the others go on.

    Raises:
        Stopped: If a metric was closed before it had scored them.
    """
    standing = [subject for subject in subjects if not subject.attempt.failed]
    results: list[Scores] = [dict(subject.scores) for subject in subjects]
    scores_of = {id(subject): scores for subject, scores in zip(subjects, results, strict=True)}
    at_hand = [Subject(each.case, each.attempt, scores_of[id(each)], each.begun) for each in standing]
    for metric in metrics:
        for subject, score in zip(standing, _scores_of(metric, at_hand), strict=True):
            scores_of[id(subject)][metric.name] = score
    for subject, scores in zip(subjects, results, strict=True):
        if subject.attempt.failed:
            scores.update(_failed(metrics, subject.attempt))
    return results


def score_attempts(metrics: Sequence[Metric], pairs: Sequence[tuple[Case, Attempt]]) -> list[Scores]:
    """Scores of each attempt by every metric: :func:`begin` and :func:`finish` in one."""
    return finish(metrics, begin(metrics, pairs))


def _scores_of(metric: Metric, subjects: Sequence[Subject]) -> list[Score]:
    if not subjects:
        return []
    try:
        return _given(metric, subjects)
    except Stopped:
        raise
    except BaseException as error:  # one bad attempt must not cost the others their scores
        if may_be_ctrl_c(error):
            raise
        log.debug("%s failed on a batch of %d: %s", metric.name, len(subjects), reason(error))
    return [_score_alone(metric, subject) for subject in subjects]


def _score_alone(metric: Metric, subject: Subject) -> Score:
    try:
        (score,) = _given(metric, [subject])
    except Stopped:
        raise
    except BaseException as error:
        if may_be_ctrl_c(error):
            raise
        where = f"{subject.attempt.case}, repeat {subject.attempt.repeat}"
        log.warning("%s failed on %s: %s", metric.name, where, reason(error))
        return metric.error(reason(error))
    return score


def _given(metric: Metric, subjects: Sequence[Subject]) -> list[Score]:
    if not is_from_outside(metric):
        return metric.score_many(subjects)
    return admitted(metric, metric.score_many(list(subjects)), len(subjects))


def _failed(metrics: Sequence[Metric], attempt: Attempt) -> Scores:
    why = f"the attempt failed: {attempt.error}"
    return {
        metric.name: (metric.ok(0.0, reason=why) if metric.name == "success" else metric.skipped(why))
        for metric in metrics
    }


def score(metric: str, *, output: Any = None, references: Sequence[str] = (), **fields: Any) -> Score:
    """One metric on one output, in one line.

    Args:
        metric: Its name.
        output: What the agent gave back.
        references: Texts to compare it with.
        fields: Further fields of the Attempt (``seconds``, ``trace``, …), of the Case (``expect``,
            ``source``, …) or keys of the suite settings (``encoder``, ``success``, ``judge``, …), as a suite
            file has them or as their classes.

    Raises:
        SuiteError: If a setting is wrong.

    Examples:
        >>> score("jaccard", output="a b c", references=["a b d"]).value
        0.5
    """
    attempt = {key: fields.pop(key) for key in list(fields) if key in Attempt.__struct_fields__}
    case = {key: fields.pop(key) for key in list(fields) if key in Case.__struct_fields__}
    case = {"id": "1", "input": None, "references": tuple(references)} | case
    attempt = {"case": case["id"], "output": output} | attempt
    plain = {key: str(value) if isinstance(value, PurePath) else value for key, value in fields.items()}
    asked = Case(**case)
    settings = with_default_success(changed(Settings(), plain, source=""), [asked])
    metrics = build_metrics([metric], settings)
    try:
        (scores,) = score_attempts(metrics, [(asked, Attempt(**attempt))])
    finally:
        for each in metrics:
            each.close()
    return scores[metrics[-1].name]
