"""Judged dimensions as metrics: ``rubric.dimension``, or ``dimension`` where that name is free."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import ClassVar, NamedTuple, Self

import msgspec

from trivium.errors import MissingExtra, Problem, SuiteError
from trivium.metrics.judge.budget.prices import models_of, price_problems
from trivium.metrics.judge.client.executor import JudgeExecutor
from trivium.metrics.judge.client.model_factory import no_such_provider
from trivium.metrics.judge.judge import Judge
from trivium.metrics.judge.judgement import DIGITS, Judgement
from trivium.metrics.judge.panel import by_judge, majority
from trivium.metrics.judge.prompts.prompt import WORDING
from trivium.metrics.metric import Metric, MetricInput, Score, Skip, Tier, is_judge_fallback, is_unavailable
from trivium.metrics.registry import JUDGE_FALLBACK
from trivium.suites.rubrics.built_in import BUILT_IN, REVIEW
from trivium.suites.rubrics.loader import OVERALL, unknown_rubric
from trivium.suites.rubrics.rubric import Dimension, Rubric
from trivium.suites.settings import JudgeSettings, Settings

NO_JUDGE = "the suite names no judge (judge.models)"


@dataclass(frozen=True, kw_only=True)
class JudgedDimension(Metric):
    """One dimension of a rubric.

    Attributes:
        rubric: Whose dimension it is.
        dimension: What is judged.
        judge: Who judges it, together with the other dimensions of its rubric; None without models.
        on_failure: What stands in when no judge answers: ``tier1``, ``skip`` or ``fail``.
    """

    tier: ClassVar[Tier] = "judge"
    prefetches: ClassVar[bool] = True
    rubric: ClassVar[Rubric]
    dimension: ClassVar[Dimension]
    judge: Judge | None = None
    on_failure: str | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's way of failing; ``attach_judges`` gives it its judge."""
        return cls(on_failure=None if settings.judge is None else settings.judge.on_failure)

    @property
    def needs(self) -> tuple[str, ...]:
        """The metric that stands in for a judgement."""
        return (JUDGE_FALLBACK,) if self.on_failure == "tier1" else ()

    def check(self) -> None:
        """Refuse to be judged where a model is named and what asks models is not installed."""
        if self.judge is not None and models_of(self.judge.settings) and not find_spec("pydantic_ai"):
            raise MissingExtra("judge", self.name)

    def prefetch(self, subjects: Sequence[MetricInput]) -> None:
        """Start judging attempts without waiting."""
        if self.judge is not None:
            self.judge.prefetch(subjects)

    def close(self) -> None:
        """Gives up what is being judged."""
        if self.judge is not None:
            self.judge.close()

    def score_many(self, subjects: Sequence[MetricInput]) -> list[Score]:
        """Judges the whole batch, or takes what another dimension of the rubric had judged."""
        if self.judge is None:
            return [self.skipped(NO_JUDGE) for _ in subjects]
        judged = self.judge.judge(subjects)
        return [
            self._score(subject, found[self.dimension.name])
            for subject, found in zip(subjects, judged, strict=True)
        ]

    def _score(self, subject: MetricInput, found: Judgement) -> Score:
        if found.status == "failed":
            return self._without_judge(subject, found.reason)
        return Score(
            name=self.name,
            tier=self.tier,
            value=found.value,
            status=found.status,
            raw=found.raw,
            reason=found.reason,
            method=found.method,
            detail=found.detail,
        )

    def _without_judge(self, subject: MetricInput, why: str) -> Score:
        if self.on_failure == "fail":
            return self.error(why)
        if self.on_failure == "skip":
            return self.skipped(why, missing=True)
        stand_in = subject.scores[JUDGE_FALLBACK]
        if stand_in.value is None:
            return self.skipped(f"{why}; nor is there a {JUDGE_FALLBACK}: {stand_in.reason}", missing=True)
        return Score(
            name=self.name,
            tier=self.tier,
            value=stand_in.value,
            status="fallback",
            reason=why,
            method=JUDGE_FALLBACK,
        )


@dataclass(frozen=True, kw_only=True)
class Overall(Metric):
    """The weighted mean of a rubric's dimensions, over those that have a score (spec: metrics, T2.4)."""

    tier: ClassVar[Tier] = "judge"
    weights: ClassVar[Mapping[str, float]]
    pass_mark: ClassVar[float]

    @property
    def needs(self) -> tuple[str, ...]:
        """Every dimension of the rubric."""
        return tuple(self.weights)

    def score(self, subject: MetricInput) -> Score:
        """Folds the dimensions; ``detail.passed`` says whether the mark is reached.

        Of a panel it says whether a strict majority of the judges, each by its own scores, has it reached,
        and is null where they tie. It is null too where dimensions that no judge could be had for would
        decide. What stands in for a judgement takes no part.
        """
        scores = {name: subject.scores[name] for name in self.weights}
        there = {
            name: score.value
            for name, score in scores.items()
            if score.value is not None and not is_judge_fallback(score)
        }
        lacking = [name for name, score in scores.items() if is_unavailable(score)]
        if not there:
            return self._without_judge(scores, lacking)
        methods = dict.fromkeys(scores[name].method for name in there)
        total = sum(self.weights[name] for name in there)
        value = round(sum(self.weights[name] * score for name, score in there.items()) / total, DIGITS)
        each = by_judge(scores, self.weights)
        passed = (
            majority([mean >= self.pass_mark for mean in each.values()]) if each else value >= self.pass_mark
        )
        if lacking:
            passed = self._passed_without(value, total, sum(self.weights[name] for name in lacking))
        detail = {"passed": passed, "pass_mark": self.pass_mark, "dimensions": there}
        return Score(
            name=self.name,
            tier=self.tier,
            value=value,
            reason=f"without {', '.join(lacking)}: {scores[lacking[0]].reason}" if lacking else None,
            method=", ".join(each for each in methods if each) or None,
            detail=detail | ({"by_judge": each} if each else {}),
        )

    def _passed_without(self, value: float, weight: float, lacking: float) -> bool | None:
        """Whether the mark is reached whatever the missing dimensions come to; None where they decide."""
        low = value * weight / (weight + lacking)
        high = low + lacking / (weight + lacking)
        if low >= self.pass_mark:
            return True
        return False if high < self.pass_mark else None

    def _without_judge(self, scores: Mapping[str, Score], lacking: Sequence[str]) -> Score:
        """The score where no dimension was judged: what stands in for all of them, or none."""
        if not lacking:
            raise Skip("no dimension of the rubric has a score")
        why = scores[lacking[0]].reason or ""
        values = [score.value for score in scores.values() if score.value is not None]
        if not values:
            return self.skipped(why, missing=True)
        return Score(
            name=self.name,
            tier=self.tier,
            value=values[0],
            status="fallback",
            reason=why,
            method=JUDGE_FALLBACK,
        )


class Judged(NamedTuple):
    """What judges may score.

    Attributes:
        metrics: By the names of their scores.
        long: Names of scores by ``rubric.dimension``; either will do in a suite.
        whole: The metrics that stand for a whole rubric, by its name.
    """

    metrics: dict[str, type[Metric]]
    long: dict[str, str]
    whole: dict[str, tuple[str, ...]]


def judged(settings: Settings | None, taken: Collection[str]) -> Judged:
    """The metrics of the built-in rubrics, and of those that a suite brings.

    Args:
        settings: The suite's.
        taken: Names of other metrics; a dimension that is called like one of them, or like one of another
            rubric, goes by its long name alone.

    Raises:
        SuiteError: If a rubric is unknown, or called like a metric.
    """
    named = settings.judge.rubric if settings is not None and settings.judge is not None else ()
    own = tuple(each for each in named if not isinstance(each, str))
    problems = [
        Problem("judge.rubric", unknown_rubric(each))
        for each in named
        if isinstance(each, str) and each not in BUILT_IN
    ]
    problems += [
        Problem("judge.rubric", f'"{each.name}" is a metric: the rubric needs another name')
        for each in own
        if each.name in taken
    ]
    if problems:
        raise SuiteError("", problems)
    names = {dimension.name for rubric in (*BUILT_IN.values(), *own) for dimension in rubric.dimensions}
    return _judged(msgspec.json.encode(own), frozenset(names & set(taken)))


@lru_cache(maxsize=16)
def _judged(raw: bytes, taken: frozenset[str]) -> Judged:
    own = msgspec.json.decode(raw, type=tuple[Rubric, ...])
    known = {*taken, *(rubric.name for rubric in (*BUILT_IN.values(), *own))}
    found = Judged({}, {}, {})
    for rubric in (*BUILT_IN.values(), *own):
        others = [each for each in own if each is not rubric]
        if rubric.name in BUILT_IN:
            others = []  # what a suite brings takes no name from what is built in
        elsewhere = {dimension.name for other in others for dimension in other.dimensions}
        names = {
            each.name: f"{rubric.name}.{each.name}" if each.name in known | elsewhere else each.name
            for each in rubric.dimensions
        }
        found.metrics.update((cls.name, cls) for cls in _metrics_of(rubric, names))
        found.long.update((f"{rubric.name}.{name}", score) for name, score in names.items())
        overall = () if rubric is REVIEW else (f"{rubric.name}.{OVERALL}",)
        found.whole[rubric.name] = (*names.values(), *overall)
        if rubric.name in BUILT_IN:
            known |= names.keys()
    return found


def _metrics_of(rubric: Rubric, names: Mapping[str, str]) -> Iterator[type[Metric]]:
    """Classes of metrics, a dimension each and one for the whole; ``names`` are those of their scores."""
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
    """Where the judges of some metrics sit, or None where nothing is judged."""
    judges = [each.judge for each in metrics if isinstance(each, JudgedDimension) and each.judge is not None]
    return judges[0].executor if judges else None


def _unknown_models(judge: JudgeSettings) -> Iterator[Problem]:
    """Models of providers that nobody knows; without the extra that is not known, and said elsewhere."""
    for name in models_of(judge):
        if wrong := no_such_provider(name):
            yield Problem("judge.models", wrong)


def attach_judges(metrics: Sequence[Metric], settings: Settings) -> list[Metric]:
    """The metrics, the judged dimensions of each rubric with one judge between them.

    Args:
        metrics: Of one suite.
        settings: The suite's.

    Raises:
        SuiteError: If a model's provider is unknown, or the suite has a budget in USD and a model no price.
    """
    if settings.judge is None:
        return list(metrics)
    if problems := [*_unknown_models(settings.judge), *price_problems(settings.judge)]:
        raise SuiteError("", problems)
    wanted: dict[str, list[JudgedDimension]] = {}
    for each in metrics:
        if isinstance(each, JudgedDimension):
            wanted.setdefault(each.rubric.name, []).append(each)
    executor = JudgeExecutor(settings.judge)
    told: set[str] = set()
    judges = {
        name: Judge(
            each[0].rubric,
            [one.dimension for one in each],
            settings.judge,
            encoder=settings.encoder,
            executor=executor,
            told=told,
        )
        for name, each in wanted.items()
    }
    return [
        replace(each, judge=judges[each.rubric.name]) if isinstance(each, JudgedDimension) else each
        for each in metrics
    ]
