"""Scores attempts with metrics; a metric that fails does not affect the others.

Scores of third-party metrics are validated before they are stored.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypedDict, Unpack

import msgspec

from trivium.agents.attempt import AgentFailure, Attempt, Usage
from trivium.agents.failures import may_be_ctrl_c, reason, shown
from trivium.agents.response import masked_value, sanitise_output
from trivium.errors import SuiteError
from trivium.keywords import keywords, taken
from trivium.metrics.metric import (
    STATUSES,
    Metric,
    MetricInput,
    Score,
    Stopped,
)
from trivium.metrics.registry import build_metrics
from trivium.metrics.text.task import with_default_success
from trivium.records.validation import convert
from trivium.suites.case import NOTHING_EXPECTED, Case, Complexity, Expect
from trivium.suites.settings import (
    JudgeSettings,
    MessageSettings,
    RetrievalSettings,
    Settings,
    SuccessRule,
    ToolSettings,
)
from trivium.suites.settings_loader import with_changes
from trivium.traces.trace import Trace

log = logging.getLogger(__name__)

Scores = dict[str, Score]

SINGLE_SCORE_BATCH = 32
"""Batch size if every metric scores attempts one by one: small enough that the scores are still in the
processor's cache when they are aggregated and stored."""


def batch_size(metrics: Sequence[Metric], most: int) -> int:
    """Number of attempts, up to ``most``, that these metrics should score at once."""
    one_by_one = all(type(metric).score_many is Metric.score_many for metric in metrics)
    return min(SINGLE_SCORE_BATCH, most) if one_by_one else most


def prefetch(metrics: Sequence[Metric], inputs: Sequence[MetricInput]) -> None:
    """Let metrics start their slow work.

    Args:
        metrics: Metrics in the order of ``build_metrics``.
        inputs: What :func:`score_inputs` will score.
    """
    completed = [each for each in inputs if not each.attempt.failed]
    for metric in metrics:
        if completed and metric.prefetches:
            metric.prefetch(completed)


def score_inputs(metrics: Sequence[Metric], inputs: Sequence[MetricInput]) -> list[Scores]:
    """Score each input with every metric, in the order of the metrics.

    Scores that an input has already are kept. Of a failed attempt, what its trace shows is computed, and
    what else is due is missing (docs/definitions/scores.md#failed-attempt). If a metric raises for an
    attempt, that score has status ``error``; the others are computed.

    Raises:
        Stopped: If a metric was closed before it had scored all inputs.
    """
    results: list[Scores] = [dict(each.scores) for each in inputs]
    pairs = [
        (MetricInput(each.case, each.attempt, scores, each.prefetched), scores)
        for each, scores in zip(inputs, results, strict=True)
    ]
    some_failed = any(each.attempt.failed for each in inputs)
    for metric in metrics:
        due = [each for each in pairs if metric.name not in each[1]]
        if some_failed:
            for each, scores in due:
                if each.attempt.failed and (known := _without_result(metric, each)) is not None:
                    scores[metric.name] = known
            due = [each for each in due if metric.name not in each[1]]
        for (_, scores), score in zip(due, _scores_of(metric, [each for each, _ in due]), strict=True):
            scores[metric.name] = score
    return [{metric.name: scores[metric.name] for metric in metrics} for scores in results]


def score_attempts(metrics: Sequence[Metric], pairs: Sequence[tuple[Case, Attempt]]) -> list[Scores]:
    """Score each attempt with every metric: :func:`prefetch`, then :func:`score_inputs`."""
    inputs = [MetricInput(case, attempt) for case, attempt in pairs]
    prefetch(metrics, inputs)
    return score_inputs(metrics, inputs)


def _scores_of(metric: Metric, inputs: Sequence[MetricInput]) -> list[Score]:
    if not inputs:
        return []
    try:
        scores = metric.score_many([*inputs])
        return checked_scores(metric, scores, len(inputs)) if is_third_party(metric) else scores
    except Stopped:
        raise
    except BaseException as error:
        if may_be_ctrl_c(error):
            raise
        if len(inputs) > 1:  # score them one by one: the others of the batch may be fine
            log.debug("%s failed on a batch of %d: %s", metric.name, len(inputs), reason(error))
            return [score for each in inputs for score in _scores_of(metric, [each])]
        attempt = inputs[0].attempt
        log.warning(
            "%s failed on %s, repeat %d: %s", metric.name, attempt.case, attempt.repeat, reason(error)
        )
        return [metric.error(reason(error))]


def _without_result(metric: Metric, failed: MetricInput) -> Score | None:
    """The score of a failed attempt, for which nothing is computed; None for one that its trace shows."""
    why = f"the attempt failed: {failed.attempt.error}"
    fields = metric.case_fields
    due = not fields or any(_given(failed.case, field) for field in fields)
    if failed.attempt.is_unfair:
        reason_ = failed.attempt.error or ""
        return metric.error(reason_) if due else metric.skipped(reason_)
    if metric.name in {"success", "completed"}:
        return metric.ok(0.0, reason=why)
    if metric.tier == "trace" and failed.attempt.trace is not None:
        return None
    return metric.skipped(why, missing=due)


def _given(case: Case, field: str) -> bool:
    name = field.removeprefix("expect.")
    return bool(getattr(case, name, None) or getattr(case.expect, name, None))


class ScoringOptions(TypedDict, total=False):
    """Keywords of :func:`score`: fields of the case and of the attempt, and settings.

    Attributes:
        output: Output of the agent.
        references: Good outputs, with which the output is compared.
        id: Id of the case.
        input: Input of the agent.
        source: The document that the case is about.
        expect: What a good attempt does.
        tags: Tags of the case.
        complexity: How difficult the case is.
        group: The cluster that the case belongs to.
        metadata: Further data of the attempt.
        repeat: Which attempt of the case this is, from 0.
        seconds: Wall time of the attempt, in seconds.
        trace: Trace of the attempt.
        usage: Tokens and cost of the attempt.
        reward: The recorded reward, in [0, 1].
        error: Why the attempt failed.
        flags: What sanitising changed in the output.
        encoder: Name or folder of the encoder for ``semantic``.
        similarity: Weights of the parts of ``similarity``.
        success: When an attempt counts as a success.
        tools: How tool calls are interpreted.
        messages: Which message types are coordination and which are productive work.
        retrieval: How retrieved documents are rated.
        judge: The judge's models, rubrics and limits.
        seed: Seed of all randomness.
    """

    output: Any
    references: Sequence[str]
    id: str
    input: Any
    source: str | None
    expect: Expect | Mapping[str, Any]
    tags: Sequence[str]
    complexity: Complexity
    group: str | None
    metadata: Mapping[str, Any] | None
    repeat: int
    seconds: float | None
    trace: Trace | None
    usage: Usage | None
    reward: float | None
    error: str | None
    flags: Sequence[str]
    encoder: str | PurePath | None
    similarity: Mapping[str, float] | None
    success: SuccessRule | Mapping[str, Any] | None
    tools: ToolSettings | Mapping[str, Any] | None
    messages: MessageSettings | Mapping[str, Any] | None
    retrieval: RetrievalSettings | Mapping[str, Any] | None
    judge: JudgeSettings | Mapping[str, Any] | None
    seed: int | None


@keywords(references=(), id="1", expect=NOTHING_EXPECTED, tags=(), complexity="medium", repeat=0, flags=())
def score(metric: str, **options: Unpack[ScoringOptions]) -> Score:
    """Score one output with one metric.

    Args:
        metric: The name of the metric.
        **options: See :class:`ScoringOptions`.

    Raises:
        SuiteError: If the metric is unknown, or a setting is wrong.

    Examples:
        >>> score("jaccard", output="a b c", references=["a b d"]).value
        0.5
    """
    given: dict[str, Any] = {**options, "case": options["id"], "expect": _expect(options["expect"])}
    given |= {name: tuple(given[name]) for name in ("references", "tags", "flags")}
    case = Case(**taken(Case, given) | {"metadata": {}})
    # "messages" are a setting here, not a conversation.
    own = {"metadata": dict(options["metadata"] or {}), "messages": ()}
    attempt = Attempt(**taken(Attempt, given) | own)
    encoder = None if options["encoder"] is None else str(options["encoder"])
    changes = taken(("similarity", "success", "tools", "messages", "retrieval", "judge", "seed"), given)
    changes["encoder"] = encoder
    return _score_one(metric, case, attempt, {key: each for key, each in changes.items() if each is not None})


def _score_one(metric: str, case: Case, attempt: Attempt, changes: Mapping[str, Any]) -> Score:
    settings = with_default_success(with_changes(Settings(), changes, source=""), [case])
    metrics = build_metrics([metric], settings)
    try:
        (scores,) = score_attempts(metrics, [(case, attempt)])
    finally:
        for each in metrics:
            each.close()
    return scores[metrics[-1].name]


def _expect(expect: Expect | Mapping[str, Any]) -> Expect:
    if isinstance(expect, Expect):
        return expect
    found, problems = convert(dict(expect), Expect, "expect")
    if found is None:
        raise SuiteError("", problems)
    return found


LARGEST_DETAIL = 1_000_000
"""Largest ``raw`` and largest ``detail`` of a third-party score, in bytes of JSON."""

ROUNDING = 1e-9
"""A value this little below 0 or above 1 is taken as a rounding error and clamped."""


def is_third_party(metric: Metric) -> bool:
    """Whether the class of a metric is defined outside of Trivium."""
    return type(metric).__module__.partition(".")[0] != "trivium"


def checked_scores(metric: Metric, scores: Any, count: int) -> list[Score]:
    """Check the scores of a third-party metric; one that cannot be stored becomes an error.

    Args:
        metric: The metric.
        scores: The result of its ``score_many``.
        count: Expected number of scores.

    Raises:
        TypeError: If ``scores`` is not a list of that length.
    """
    if not isinstance(scores, Sequence) or len(scores) != count:
        found = f"{len(scores)} scores" if isinstance(scores, Sequence) else _kind(scores)
        raise TypeError(f"score_many gave {found}, expected a list of {count}")
    return [_checked_score(metric, score) for score in scores]


def _checked_score(metric: Metric, score: Any) -> Score:
    if not isinstance(score, Score):
        return metric.error(f"gave {_kind(score)}, expected a Score")
    try:
        return msgspec.structs.replace(
            score,
            name=metric.name,
            tier=metric.tier,
            value=_value(score),
            raw=_bounded(score.raw, "raw"),
            detail=_bounded(score.detail, "detail"),
            reason=None if score.reason is None else shown(str(score.reason)),
            method=None if score.method is None else shown(str(score.method)),
        )
    except (AgentFailure, ValueError) as error:
        return metric.error(shown(str(error)))


def _bounded(value: Any, noun: str) -> Any:
    return masked_value(sanitise_output(value, limit=LARGEST_DETAIL, noun=noun)[0])


def _value(score: Score) -> float | None:
    if score.status not in STATUSES:
        raise ValueError(f'the status is "{score.status}", expected one of {", ".join(STATUSES)}')
    if score.status not in {"ok", "fallback"}:
        return None
    value: Any = score.value
    if value is None and score.raw is not None and score.raw != [None]:
        return None  # reported, not scored
    try:
        number = float(value) if not isinstance(value, str | bytes) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not -ROUNDING <= number <= 1 + ROUNDING:
        raise ValueError(
            f"the value is {value!r:.40}, expected a number in [0, 1] (other figures belong into raw)"
        )
    return min(1.0, max(0.0, number))


def _kind(found: Any) -> str:
    return f"something of type {type(found).__name__}"
