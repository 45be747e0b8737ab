"""Judged dimensions as metrics: ``rubric.dimension``, or ``dimension`` where that name is free."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from trivium.errors import Problem, SuiteError, suggest
from trivium.metrics.judge.judging import Judge, Judgement
from trivium.metrics.metric import Metric, Skip, Subject
from trivium.metrics.score import Score, Tier
from trivium.suites.rubrics.built_in import BUILT_IN
from trivium.suites.rubrics.rubric import PASS_MARK, Dimension, Rubric
from trivium.suites.settings import JudgeSettings, Settings

NO_JUDGE = "the judge is off: the suite names no model (judge.models)"
STAND_IN = "similarity"
"""What stands in for a judgement that cannot be had (spec: metrics, T2.6)."""

TAKEN = frozenset({"tool_efficiency"})
"""Short names that another metric has."""


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
    rubric: ClassVar[Rubric]
    dimension: ClassVar[Dimension]
    judge: Judge | None = None
    on_failure: str | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's way of failing; ``seat`` gives it its judge."""
        return cls(on_failure=None if settings.judge is None else settings.judge.on_failure)

    @property
    def needs(self) -> tuple[str, ...]:
        """The metric that stands in for a judgement."""
        return (STAND_IN,) if self.on_failure == "tier1" else ()

    def score_many(self, subjects: Sequence[Subject]) -> list[Score]:
        """Judges the whole batch, or takes what another dimension of the rubric had judged."""
        if self.judge is None:
            return [self.skipped(NO_JUDGE) for _ in subjects]
        judged = self.judge.judge(subjects)
        return [
            self._score(subject, found[self.dimension.name])
            for subject, found in zip(subjects, judged, strict=True)
        ]

    def _score(self, subject: Subject, found: Judgement) -> Score:
        match found.status:
            case "ok":
                return self.ok(found.value, raw=found.raw, reason=found.reason, detail=found.detail)
            case "skipped":
                return self.skipped(found.reason, detail=found.detail)
            case "abstained":
                return Score(
                    name=self.name,
                    tier=self.tier,
                    status="abstained",
                    raw=found.raw,
                    reason=found.reason,
                    detail=found.detail,
                )
            case "failed":
                return self._without_judge(subject, found.reason)

    def _without_judge(self, subject: Subject, why: str) -> Score:
        if self.on_failure == "fail":
            return self.error(why)
        if self.on_failure == "skip":
            return self.skipped(why)
        stand_in = subject.scores[STAND_IN]
        if stand_in.value is None:
            return self.skipped(f"{why}; nor is there a {STAND_IN}: {stand_in.reason}")
        return Score(
            name=self.name,
            tier=self.tier,
            value=stand_in.value,
            status="fallback",
            reason=why,
            method=STAND_IN,
        )


@dataclass(frozen=True, kw_only=True)
class Overall(Metric):
    """The weighted mean of a rubric's dimensions, over those that have a score (spec: metrics, T2.4)."""

    tier: ClassVar[Tier] = "judge"
    weights: ClassVar[Mapping[str, float]]

    @property
    def needs(self) -> tuple[str, ...]:
        """Every dimension of the rubric."""
        return tuple(self.weights)

    def score(self, subject: Subject) -> Score:
        """Folds the dimensions; ``detail.passed`` says whether the mark is reached."""
        scores = {name: subject.scores[name] for name in self.weights}
        there = {name: score.value for name, score in scores.items() if score.value is not None}
        if not there:
            raise Skip("no dimension of the rubric has a score")
        leaning = [name for name in there if scores[name].status == "fallback"]
        total = sum(self.weights[name] for name in there)
        value = min(1.0, sum(self.weights[name] * score for name, score in there.items()) / total)
        return Score(
            name=self.name,
            tier=self.tier,
            value=value,
            status="fallback" if leaning else "ok",
            reason=f"fallback in {', '.join(leaning)}" if leaning else None,
            method=STAND_IN if leaning else None,
            detail={"passed": value >= PASS_MARK, "pass_mark": PASS_MARK, "dimensions": there},
        )


def short_name(rubric: Rubric, dimension: Dimension) -> str:
    """How scores of a dimension are called."""
    return f"{rubric.name}.{dimension.name}" if dimension.name in TAKEN else dimension.name


def _metrics_of(rubric: Rubric) -> Iterator[type[Metric]]:
    names: dict[str, float] = {}
    for dimension in rubric.dimensions:
        name = short_name(rubric, dimension)
        names[name] = dimension.weight
        fields = {"name": name, "rubric": rubric, "dimension": dimension, "__doc__": dimension.asks}
        yield type("JudgedDimension", (JudgedDimension,), fields)
    fields = {
        "name": f"{rubric.name}.overall",
        "weights": names,
        "__doc__": f"{rubric.name} in all.",
    }
    yield type("Overall", (Overall,), fields)


JUDGED: dict[str, type[Metric]] = {
    cls.name: cls for rubric in BUILT_IN.values() for cls in _metrics_of(rubric)
}
"""The metrics of the built-in rubrics, by the names their scores have."""

LONG_NAMES: dict[str, str] = {
    f"{rubric.name}.{dimension.name}": short_name(rubric, dimension)
    for rubric in BUILT_IN.values()
    for dimension in rubric.dimensions
}
"""``rubric.dimension`` of each; either name will do in a suite."""

WHOLE: dict[str, tuple[str, ...]] = {
    rubric.name: tuple(LONG_NAMES[f"{rubric.name}.{dimension.name}"] for dimension in rubric.dimensions)
    for rubric in BUILT_IN.values()
}
WHOLE["agent"] += ("agent.overall",)
"""The metrics that stand for a whole rubric."""


def seat(metrics: Sequence[Metric], settings: Settings) -> list[Metric]:
    """The metrics, the judged dimensions of each rubric with one judge between them.

    Args:
        metrics: Of one suite.
        settings: The suite's.

    Raises:
        SuiteError: If a rubric is unknown, or a bound is set that is not kept.
    """
    if settings.judge is None:
        return list(metrics)
    _check(settings.judge)
    wanted: dict[str, list[JudgedDimension]] = {}
    for each in metrics:
        if isinstance(each, JudgedDimension):
            wanted.setdefault(each.rubric.name, []).append(each)
    judges = {
        name: Judge(each[0].rubric, [one.dimension for one in each], settings.judge, encoder=settings.encoder)
        for name, each in wanted.items()
    }
    return [
        replace(each, judge=judges[each.rubric.name]) if isinstance(each, JudgedDimension) else each
        for each in metrics
    ]


def _check(judge: JudgeSettings) -> None:
    problems = [
        Problem(
            "judge.rubric", f'no rubric is called "{name}".{suggest(name, WHOLE)} (known: {", ".join(WHOLE)})'
        )
        for name in judge.rubric
        if name not in WHOLE
    ]
    problems += [
        # A bound that is not kept would be worse than none.
        Problem(
            f"judge.{name}", "cannot be kept by this version: leave it out, and set a limit at the provider"
        )
        for name in ("budget_usd", "budget_tokens")
        if getattr(judge, name) is not None
    ]
    if problems:
        raise SuiteError("", problems)
