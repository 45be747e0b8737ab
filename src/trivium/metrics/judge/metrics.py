"""Judged dimensions as metrics: ``rubric.dimension``, or ``dimension`` where that name is free."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import ClassVar, NamedTuple, Self

import msgspec

from trivium.errors import MissingExtra, Problem, SuiteError
from trivium.metrics.evaluation import is_judge_fallback, is_unavailable, reaches
from trivium.metrics.judge.budget.prices import models_of, price_problems
from trivium.metrics.judge.client.models import JudgeExecutor
from trivium.metrics.judge.client.pydantic_ai_models import unknown_provider
from trivium.metrics.judge.judge import Judge
from trivium.metrics.judge.judgement import DIGITS, Judgement
from trivium.metrics.judge.panel import by_judge, majority
from trivium.metrics.judge.prompts.prompt import WORDING
from trivium.metrics.metric import Metric, MetricInput, Score, Skip, Tier
from trivium.metrics.registry import JUDGE_FALLBACK
from trivium.suites.rubrics.built_in import NAMES, built_in_rubrics
from trivium.suites.rubrics.loader import OVERALL, unknown_rubric
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.settings import Settings

NO_JUDGE = "the suite names no judge (judge.models)"

OF_A_TRACE = frozenset({"input", "output", "conversation", "contexts", "trace"})
"""Inputs of a judge that a recorded trace has by itself."""


@dataclass(frozen=True, kw_only=True)
class JudgedDimension(Metric):
    """One dimension of a rubric as a metric.

    Attributes:
        rubric: The rubric.
        dimension: The dimension.
        judge: The judge, which all dimensions of the rubric share; None if the suite names no model.
        on_failure: What to do when no judge answers: ``tier1`` (fall back on similarity), ``skip`` or
            ``fail``.
    """

    tier: ClassVar[Tier] = "judge"
    prefetches: ClassVar[bool] = True
    rubric: ClassVar[Rubric]
    dimension: ClassVar[Dimension]
    judge: Judge | None = None
    on_failure: str | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Create the metric with the suite's ``on_failure``; :func:`attach_judges` adds the judge."""
        return cls(on_failure=None if settings.judge is None else settings.judge.on_failure)

    @property
    def needs(self) -> tuple[str, ...]:
        """The metric that a judgement falls back on."""
        return (JUDGE_FALLBACK,) if self.on_failure == "tier1" else ()

    @property
    def case_fields(self) -> tuple[str, ...]:
        """The fields of a case that the dimension needs; none if it needs those that recorded traces have."""
        needs = self.dimension.needs
        return () if OF_A_TRACE.intersection(needs) else needs

    def check(self) -> None:
        """Check that PydanticAI is installed if the suite names a model.

        Raises:
            MissingExtra: If it is not.
        """
        if self.judge is not None and models_of(self.judge.settings) and not find_spec("pydantic_ai"):
            raise MissingExtra("judge", self.name)

    def prefetch(self, metric_inputs: Sequence[MetricInput]) -> None:
        """Start judging attempts without waiting."""
        if self.judge is not None:
            self.judge.prefetch(metric_inputs)

    def close(self) -> None:
        """Cancel judgements under way."""
        if self.judge is not None:
            self.judge.close()

    def score_many(self, metric_inputs: Sequence[MetricInput]) -> list[Score]:
        """Judge a batch, unless another dimension of the rubric has done so already."""
        if self.judge is None:
            return [self.skipped(NO_JUDGE) for _ in metric_inputs]
        judged = self.judge.judge(metric_inputs)
        return [
            self._score(metric_input, judgements[self.dimension.name])
            for metric_input, judgements in zip(metric_inputs, judged, strict=True)
        ]

    def _score(self, metric_input: MetricInput, judgement: Judgement) -> Score:
        if judgement.status == "failed":
            return self._without_judge(metric_input, judgement.reason, judgement.detail)
        return self.ok(**msgspec.structs.asdict(judgement))

    def _without_judge(self, metric_input: MetricInput, why: str, detail: dict[str, object]) -> Score:
        if self.on_failure == "fail":
            return self.error(why, detail=detail)
        if self.on_failure == "skip":
            return self.skipped(why, missing=True, detail=detail)
        fallback = metric_input.scores[JUDGE_FALLBACK]
        if fallback.value is None:
            why = f"{why}; nor is there a {JUDGE_FALLBACK}: {fallback.reason}"
            return self.skipped(why, missing=True, detail=detail)
        return self.ok(fallback.value, status="fallback", reason=why, method=JUDGE_FALLBACK, detail=detail)


@dataclass(frozen=True, kw_only=True)
class Overall(Metric):
    """The weighted mean of a rubric's dimensions, over those that have a score.

    Definition: docs/definitions/judge.md#overall-score.
    """

    tier: ClassVar[Tier] = "judge"
    weights: ClassVar[Mapping[str, float]]
    pass_mark: ClassVar[float]

    @property
    def needs(self) -> tuple[str, ...]:
        """Every dimension of the rubric."""
        return tuple(self.weights)

    def score(self, metric_input: MetricInput) -> Score:
        """Combine the dimensions; ``detail.passed`` states whether the mean reaches the pass mark.

        For a panel it states whether a strict majority of the judges reaches it, each by its own scores, or
        null for a tie. It is null, too, if the result depends on dimensions without a judgement. Fallbacks
        are left out.
        """
        scores = {name: metric_input.scores[name] for name in self.weights}
        scored = {
            name: score.value
            for name, score in scores.items()
            if score.value is not None and not is_judge_fallback(score)
        }
        lacking = [name for name, score in scores.items() if is_unavailable(score)]
        if not scored:
            return self._without_judge(scores, lacking)
        methods = dict.fromkeys(scores[name].method for name in scored)
        total = sum(self.weights[name] for name in scored)
        value = round(sum(self.weights[name] * score for name, score in scored.items()) / total, DIGITS)
        each = by_judge(scores, self.weights)
        passed = (
            majority([mean >= self.pass_mark for mean in each.values()]) if each else value >= self.pass_mark
        )
        if lacking:
            # For any value of the missing dimensions; None if it depends on them.
            missing = sum(self.weights[name] for name in lacking)
            least = value * total / (total + missing)
            passed = reaches((least, least + missing / (total + missing)), self.pass_mark)
        detail = {"passed": passed, "pass_mark": self.pass_mark, "dimensions": scored}
        return self.ok(
            value,
            reason=f"without {', '.join(lacking)}: {scores[lacking[0]].reason}" if lacking else None,
            method=", ".join(each for each in methods if each) or None,
            detail=detail | ({"by_judge": each} if each else {}),
        )

    def _without_judge(self, scores: Mapping[str, Score], lacking: Sequence[str]) -> Score:
        """Return the score if no dimension was judged: the fallback of all of them, or none."""
        if not lacking:
            raise Skip("no dimension of the rubric has a score")
        why = scores[lacking[0]].reason or ""
        values = [score.value for score in scores.values() if score.value is not None]
        if not values:
            return self.skipped(why, missing=True)
        return self.ok(values[0], status="fallback", reason=why, method=JUDGE_FALLBACK)


class JudgedMetrics(NamedTuple):
    """The metrics of all rubrics.

    Attributes:
        metrics: Metric classes by the name of their score.
        long: Name of the score by ``rubric.dimension``; a suite may use either.
        whole: Names of all metrics of a rubric, by the rubric's name.
    """

    metrics: dict[str, type[Metric]]
    long: dict[str, str]
    whole: dict[str, tuple[str, ...]]


def judged_metrics(settings: Settings | None, taken: Collection[str]) -> JudgedMetrics:
    """Build the metrics of the built-in rubrics and of a suite's own.

    Args:
        settings: The suite's settings.
        taken: Names of other metrics. A dimension with such a name, or with the name of another rubric's
            dimension, has its long name only.

    Raises:
        SuiteError: If a rubric is unknown, or has the name of a metric.
    """
    named = settings.judge.rubric if settings is not None and settings.judge is not None else ()
    own = tuple(each for each in named if not isinstance(each, str))
    problems = [
        Problem("judge.rubric", unknown_rubric(each))
        for each in named
        if isinstance(each, str) and each not in NAMES
    ]
    problems += [
        Problem("judge.rubric", f'"{each.name}" is a metric: the rubric needs another name')
        for each in own
        if each.name in taken
    ]
    if problems:
        raise SuiteError("", problems)
    rubrics = (*built_in_rubrics().values(), *own)
    names = {dimension.name for rubric in rubrics for dimension in rubric.dimensions}
    return _judged_metrics(msgspec.json.encode(own), frozenset(names & set(taken)))


@lru_cache(maxsize=16)
def _judged_metrics(raw: bytes, taken: frozenset[str]) -> JudgedMetrics:
    own = msgspec.json.decode(raw, type=tuple[Rubric, ...])
    known = {*taken, *(rubric.name for rubric in (*built_in_rubrics().values(), *own))}
    found = JudgedMetrics({}, {}, {})
    for rubric in (*built_in_rubrics().values(), *own):
        others = [each for each in own if each is not rubric]
        if rubric.name in NAMES:
            others = []  # a suite's rubric takes no name away from a built-in one
        elsewhere = {dimension.name for other in others for dimension in other.dimensions}
        names = {
            each.name: f"{rubric.name}.{each.name}" if each.name in known | elsewhere else each.name
            for each in rubric.dimensions
        }
        found.metrics.update((cls.name, cls) for cls in _metrics_of(rubric, names))
        found.long.update((f"{rubric.name}.{name}", score) for name, score in names.items())
        overall = () if rubric.name == "review" else (f"{rubric.name}.{OVERALL}",)
        found.whole[rubric.name] = (*names.values(), *overall)
        if rubric.name in NAMES:
            known |= names.keys()
    return found


def _metrics_of(rubric: Rubric, names: Mapping[str, str]) -> Iterator[type[Metric]]:
    """Create a metric class for each dimension and one for the rubric; ``names`` maps to score names."""
    version = f"{rubric.digest}-{WORDING}"
    for dimension in rubric.dimensions:
        fields = {
            "name": names[dimension.name],
            "version": version,
            "rubric": rubric,
            "dimension": dimension,
            "__doc__": dimension.asks,
        }
        yield type("JudgedDimension", (JudgedDimension,), fields)
    fields = {
        "name": f"{rubric.name}.{OVERALL}",
        "version": version,
        "weights": {names[dimension.name]: dimension.weight for dimension in rubric.dimensions},
        "pass_mark": rubric.pass_mark,
        "__doc__": f"{rubric.name} in all.",
    }
    yield type("Overall", (Overall,), fields)


def executor_of(metrics: Sequence[Metric]) -> JudgeExecutor | None:
    """Return the executor that some metrics' judges share, or None if none of them is judged."""
    judges = [each.judge for each in metrics if isinstance(each, JudgedDimension) and each.judge is not None]
    return judges[0].executor if judges else None


def attach_judges(metrics: Sequence[Metric], settings: Settings) -> list[Metric]:
    """Return a suite's metrics with judges attached: one judge for all dimensions of a rubric.

    Args:
        metrics: The metrics of one suite.
        settings: The suite's settings.

    Raises:
        SuiteError: If a model's provider is unknown, or if the suite has a budget in USD and a model's price
            is unknown.
    """
    if settings.judge is None:
        return list(metrics)
    # Without the extra, no provider is known to be unknown.
    unknown = filter(None, map(unknown_provider, models_of(settings.judge)))
    problems = [*(Problem("judge.models", wrong) for wrong in unknown), *price_problems(settings.judge)]
    if problems:
        raise SuiteError("", problems)
    wanted: dict[str, list[JudgedDimension]] = {}
    for each in metrics:
        if isinstance(each, JudgedDimension):
            wanted.setdefault(each.rubric.name, []).append(each)
    executor = JudgeExecutor(settings.judge)
    judges = {
        name: Judge(
            each[0].rubric,
            [one.dimension for one in each],
            settings.judge,
            encoder=settings.encoder,
            executor=executor,
        )
        for name, each in wanted.items()
    }
    return [
        replace(each, judge=judges[each.rubric.name]) if isinstance(each, JudgedDimension) else each
        for each in metrics
    ]
