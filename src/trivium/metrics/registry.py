"""Finds metrics by name: built-in ones, those of other packages, and those made with ``@metric``.

Other packages declare metrics in the entry-point group ``trivium.metrics``. A suite can also name a class
as ``package.module:Class``.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, dataclass_transform

from trivium.agents.loading import import_here
from trivium.errors import Problem, SuiteError, suggest
from trivium.metrics.metric import Metric, MetricInput, Score, Skip
from trivium.suites.case import Case, Expect
from trivium.suites.settings import Settings
from trivium.suites.settings_loader import renamed
from trivium.values import is_number

log = logging.getLogger(__name__)

BUILT_IN = {
    "cosine": "trivium.metrics.text.lexical:Cosine",
    "jaccard": "trivium.metrics.text.lexical:Jaccard",
    "semantic": "trivium.metrics.text.bertscore:Semantic",
    "similarity": "trivium.metrics.text.similarity:Similarity",
    "success": "trivium.metrics.text.task:Success",
    "time": "trivium.metrics.text.task:Time",
    "state_match": "trivium.metrics.text.state:StateMatch",
    "rouge_l": "trivium.metrics.text.lexical:RougeL",
    "bleu": "trivium.metrics.text.lexical:Bleu",
    "chrf": "trivium.metrics.text.lexical:Chrf",
    "edit": "trivium.metrics.text.lexical:Edit",
    "hit_rate": "trivium.metrics.text.retrieval:HitRate",
    "retrieval_recall": "trivium.metrics.text.retrieval:RetrievalRecall",
    "retrieval_precision": "trivium.metrics.text.retrieval:RetrievalPrecision",
    "mrr": "trivium.metrics.text.retrieval:ReciprocalRank",
    "ndcg": "trivium.metrics.text.retrieval:Ndcg",
    "turn_success": "trivium.metrics.turns:TurnSuccess",
    "path_convergence": "trivium.metrics.graph.trajectories:PathConvergence",
    "tool_selection": "trivium.metrics.graph.tool_calls:ToolSelection",
    "tool_recall": "trivium.metrics.graph.tool_calls:ToolRecall",
    "tool_success": "trivium.metrics.graph.tool_calls:ToolSuccess",
    "tool_efficiency": "trivium.metrics.graph.tool_calls:ToolEfficiency",
    "action_match": "trivium.metrics.graph.tool_calls:ActionMatch",
    "complexity": "trivium.metrics.graph.trajectories:Complexity",
    "communication_overhead": "trivium.metrics.graph.agents:CommunicationOverhead",
    "centrality": "trivium.metrics.graph.agents:Centrality",
    "coordination_quality": "trivium.metrics.graph.agents:CoordinationQuality",
    "task_balance": "trivium.metrics.graph.agents:TaskBalance",
    "loop_free": "trivium.metrics.graph.trajectories:LoopFree",
    "retry_rate": "trivium.metrics.graph.trajectories:RetryRate",
    "completed": "trivium.metrics.graph.trajectories:Completed",
}

CASE_FIGURES = ("path_agreement",)
"""Metrics of a case rather than of an attempt; a suite may name them, too.

Definition: docs/definitions/traces.md#path-agreement.
"""

AGGREGATES = ("composite", "pass_rate")
"""Aggregates that are not metrics, but may have a gate."""

OWN_NAMES = frozenset({*BUILT_IN, *CASE_FIGURES, *AGGREGATES})
"""Names that third-party metrics may not have."""

PLANNING = "planning_rationality"
"""The judged dimension that is a part of the composite; measured if a suite names no metrics."""

JUDGE_FALLBACK = "similarity"
"""The metric that is the fallback if no judge answers (docs/definitions/judge.md#unavailable-judge)."""

KNOWN_WITHOUT_LOADING = frozenset({*BUILT_IN, *CASE_FIGURES, PLANNING})
"""Names that are known without the slow search in rubrics and installed packages."""

_JUDGED = "trivium.metrics.judge.metrics"
"""Module of the judged dimensions; imported by name, so that the tiers stay independent."""

RECORDED_PREFIXES = ("inspect.", "lm-eval.", "promptfoo.", "otel.")
"""Prefixes of recorded scores, which came with imported outputs."""

STATE = "state_match"
"""The metric of what became of a world."""

RETRIEVAL = ("hit_rate", "retrieval_recall", "retrieval_precision", "mrr", "ndcg")
"""Metrics of retrieved documents."""

OFF_BY_DEFAULT = frozenset(
    {
        *("rouge_l", "bleu", "chrf", "edit", "turn_success", *RETRIEVAL),
        *("loop_free", "retry_rate", "completed", STATE),
    }
)
"""Metrics that a suite without names of metrics does not compute; ``STATE`` it does if it has a world."""


M = TypeVar("M", bound=Metric)

REGISTERED: dict[str, type[Metric]] = {}
"""Classes registered by ``@metric``, by name; filled when their modules are imported."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def metric(
    name: str, *, needs: Sequence[str] = (), case_fields: Sequence[str] = (), version: str = "1"
) -> Callable[[type[M]], type[M]]:
    """Make a class a frozen dataclass and register it as a metric.

    Args:
        name: Name in suites and reports.
        needs: Metrics that must be computed first.
        case_fields: Fields of a case of which at least one must be given (see :class:`Metric`); by default
            those of the class that it extends.
        version: See :class:`Metric`.

    Raises:
        ValueError: If the name is empty, or belongs to a built-in metric, or a case has no such field.
    """
    if not name.strip():
        raise ValueError("a metric needs a name")
    fields = [*Case.__struct_fields__, *(f"expect.{each}" for each in Expect.__struct_fields__)]
    if isinstance(case_fields, str) or not {*case_fields} <= {*fields}:
        found = f"found {case_fields!r}, expected a list of {', '.join(fields)}"
        raise ValueError(f'case_fields of the metric "{name}": {found}')

    def decorate(cls: type[M]) -> type[M]:
        if name in OWN_NAMES and cls.__module__.partition(".")[0] != __package__.partition(".")[0]:
            raise ValueError(f'a metric of Trivium is called "{name}"; give {cls.__name__} another name')
        made = dataclass(frozen=True, kw_only=True)(cls)
        made.name = name
        made.fixed_needs = tuple(needs)
        made.fixed_case_fields = tuple(case_fields) or made.fixed_case_fields
        made.version = version
        REGISTERED[name] = made
        return made

    return decorate


@cache
def _from_packages() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="trivium.metrics")}


def _declared(name: str) -> str:
    """Where a package that declares a metric has it; the name itself if none does."""
    point = _from_packages().get(name)
    return name if point is None else point.value


@cache
def _is_broken(name: str) -> bool:
    """Whether a metric declared by a package cannot be loaded; logs a warning once."""
    try:
        metric_class(name)
    except SuiteError as error:
        for problem in error.problems:
            log.warning("metric %s; it is passed over", problem.what)
        return True
    return False


def _remedy(name: str) -> str:
    """Advice about a package's metric that cannot be loaded; empty for a class named by its path."""
    point = _from_packages().get(name)
    if point is None:
        return ""
    package = point.dist.name if point.dist is not None else ""
    declared = f"declared by the package {package}" if package else f"declared as {point.value}"
    return f" ({declared}: repair that package, or pip uninstall {package or 'it'})"


def _judged(settings: Settings | None) -> Any:
    """The metrics of the built-in rubrics and of the suite's rubrics."""
    taken = {*BUILT_IN, *CASE_FIGURES, *AGGREGATES, *_from_packages(), *REGISTERED}
    return import_module(_JUDGED).judged_metrics(settings, taken)


def known_metrics(settings: Settings | None = None) -> tuple[str, ...]:
    """List every name that a suite can use, built-in ones first.

    Args:
        settings: Settings of the suite, which may contain rubrics.
    """
    judged = _judged(settings).metrics
    return tuple(dict.fromkeys([*BUILT_IN, *CASE_FIGURES, *judged, *_from_packages(), *REGISTERED]))


def usable_metrics(settings: Settings | None = None) -> tuple[str, ...]:
    """List those of :func:`known_metrics` that can be loaded; the others are logged."""
    declared = _from_packages().keys() - REGISTERED.keys()
    return tuple(name for name in known_metrics(settings) if not (name in declared and _is_broken(name)))


def no_metric(name: str, known: Iterable[str]) -> str:
    """The message for an unknown metric."""
    return f'no metric is called "{name}".{suggest(name, known)} (all: trivium show metrics)'


def metric_class(name: str, settings: Settings | None = None) -> type[Metric]:
    """Return the class of a metric; its module is imported on first use.

    Args:
        name: A known name, an alias, or ``package.module:Class``.
        settings: Settings of the suite, which may contain rubrics.

    Raises:
        SuiteError: If the name is unknown, or the class cannot be loaded.
    """
    name = renamed(name)
    if name in REGISTERED:
        return REGISTERED[name]
    if name.startswith(RECORDED_PREFIXES):
        return _recorded_metric(name)
    if name not in BUILT_IN and ":" not in name:  # dimensions of rubrics have names without a colon
        judged = _judged(settings)
        found: type[Metric] | None = judged.metrics.get(judged.long.get(name, name))
        if found is not None:
            return found
    target = BUILT_IN.get(name) or _declared(name)
    if ":" not in target.strip(":"):
        raise SuiteError("", Problem("metrics", no_metric(name, known_metrics(settings))))
    module, _, attribute = target.partition(":")
    try:
        named = getattr(import_module(module) if target != name else import_here(module), attribute)
    except (Exception, SystemExit) as error:  # a module that a user wrote may raise anything
        kind = f"{type(error).__name__}: " if not isinstance(error, ImportError | AttributeError) else ""
        wrong = f'"{name}" cannot be loaded: {kind}{error}{_remedy(name)}'
        raise SuiteError("", Problem("metrics", wrong)) from error
    if not (isinstance(named, type) and issubclass(named, Metric)):
        raise SuiteError("", Problem("metrics", f'"{name}" is no Metric class{_remedy(name)}'))
    if not named.name:
        wrong = f'"{name}" has no name: it lacks the decorator @metric("…"){_remedy(name)}'
        raise SuiteError("", Problem("metrics", wrong))
    return named


class RecordedScore(Metric):
    """A score that another tool computed and recorded for the attempt, in its ``metadata.scores``.

    A value that is not a number in [0, 1] is reported, not scored.
    """

    def score(self, metric_input: MetricInput) -> Score:
        """Return the recorded score; skipped if there is none, abstained if it is unscored."""
        scores = metric_input.attempt.metadata.get("scores")
        recorded = scores.get(self.name) if isinstance(scores, dict) else None
        if not isinstance(recorded, dict):
            raise Skip(f"no score {self.name} was recorded")
        shown = ("answer", "explanation", "edits", "original")
        detail = {key: recorded[key] for key in shown if key in recorded}
        if recorded.get("unscored") is not None:
            return self.ok(None, status="abstained", reason=str(recorded["unscored"]), detail=detail)
        value = recorded.get("value")
        share = float(value) if is_number(value) and 0 <= value <= 1 else None
        return self.ok(share, raw=recorded.get("raw"), detail=detail)


@cache
def _recorded_metric(name: str) -> type[Metric]:
    return type("RecordedScore", (RecordedScore,), {"name": name, "__doc__": RecordedScore.__doc__})


def default_metrics(settings: Settings) -> tuple[str, ...]:
    """The metrics of a run: :func:`asked_metrics`, and those that the rules of success and passing need.

    The latter are measured even if the suite does not name them (docs/definitions/scores.md#verdict).
    """
    asked = asked_metrics(settings)
    decisive = [name for name in _decisive(settings) if name not in asked]
    if not decisive:
        return asked
    own = {metric_class(name, settings).name for name in asked if ":" in name}
    known = {*known_metrics(settings)}  # lacks the names of classes that the suite names by their path
    return (*asked, *(name for name in decisive if name not in own and (name in known or ":" in name)))


def asked_metrics(settings: Settings) -> tuple[str, ...]:
    """The metrics that a suite names; if it names none, all that are on by default, and its rubrics.

    The name of a rubric stands for all its dimensions.
    """
    if (
        settings.metrics is not None
        and settings.judge is None
        and KNOWN_WITHOUT_LOADING.issuperset(settings.metrics)
    ):
        return tuple(dict.fromkeys(settings.metrics))
    judged = _judged(settings)
    if settings.metrics is not None:
        return tuple(
            dict.fromkeys(each for name in settings.metrics for each in judged.whole.get(name, (name,)))
        )
    off = OFF_BY_DEFAULT | judged.metrics.keys()
    if settings.world is not None:
        off -= {STATE}
    computed = [name for name in usable_metrics(settings) if name not in off]
    return tuple(dict.fromkeys([*computed, PLANNING, *_of_rubrics(settings, judged)]))


def _of_rubrics(settings: Settings, judged: Any) -> Iterator[str]:
    """Yield the dimensions of the rubrics of a suite's judge, if it has one."""
    for rubric in settings.judge.rubric if settings.judge is not None else ():
        yield from judged.whole[getattr(rubric, "name", rubric)]


def metrics_without_expectation(settings: Settings) -> tuple[str, ...]:
    """Every metric that scores an attempt about whose case nothing is known but the input.

    These are the metrics that declare no ``case_fields``: the built-in ones, those of installed packages, and
    the dimensions of the judge's rubrics if the settings name a judge.
    """
    judged = _judged(settings)
    names = [name for name in usable_metrics(settings) if name not in {*judged.metrics, *CASE_FIGURES}]
    names = list(dict.fromkeys([*names, *_of_rubrics(settings, judged)]))
    return tuple(
        name for name in names if not metric_class(name, settings).from_settings(settings).case_fields
    )


def _decisive(settings: Settings) -> list[str]:
    """The metrics that a suite's rules of success and passing need."""
    found = []
    by_rubric = settings.judge is not None and {"agent", "agent.overall"} & set(settings.metrics or ())
    if settings.success is not None or (
        settings.passed is None and "pass_rate" in settings.gates and not by_rubric
    ):
        found.append("success")
    if settings.passed is not None and settings.passed.metric not in AGGREGATES:
        found.append(renamed(settings.passed.metric))
    return found


def build_metrics(names: Iterable[str], settings: Settings) -> list[Metric]:
    """Make metrics and all that they need, in topological order.

    Names of ``CASE_FIGURES`` are ignored; those are computed when the run ends.

    Raises:
        SuiteError: If a name is unknown, or metrics need each other in a circle.
    """
    ordered: dict[str, Metric] = {}

    def add(name: str, wanted_by: tuple[str, ...]) -> None:
        cls = metric_class(name, settings)
        if cls.name in ordered:
            if type(ordered[cls.name]) is not cls:
                raise SuiteError(
                    "", Problem("metrics", f'"{name}": another metric is called "{cls.name}" too')
                )
            return
        if cls.name in wanted_by:
            raise SuiteError("", Problem("metrics", f"{' → '.join((*wanted_by, cls.name))} need each other"))
        made = cls.from_settings(settings)
        for need in made.needs:
            add(need, (*wanted_by, cls.name))
        ordered[cls.name] = made

    for name in names:
        if name not in CASE_FIGURES:
            add(name, ())
    if settings.judge is None:
        return list(ordered.values())
    judging: list[Metric] = import_module(_JUDGED).attach_judges(list(ordered.values()), settings)
    return judging


ACCEPTED = "accepted"
"""Gate on the share of judgements that certificates accept; ``NAME.accepted`` is for one dimension."""


def check_names(settings: Settings, *, source: str, also: Sequence[str] = ()) -> None:
    """Check the names in ``metrics``, ``success``, ``pass``, ``similarity``, ``gates`` and the weights.

    Args:
        settings: Settings of the suite.
        source: Name of the suite in messages.
        also: Metrics of the suite itself, if ``settings.metrics`` replaces them.

    Raises:
        SuiteError: With every unknown name, its place and the nearest known name.
    """
    problems = unknown_names(settings, also=also)
    if problems:
        raise SuiteError(source, problems)


def unknown_names(settings: Settings, *, also: Sequence[str] = ()) -> list[Problem]:
    """List every unknown name with its place and the nearest known name; see :func:`check_names`."""
    named = asked_metrics(settings)
    if not named:
        return [Problem("metrics", "names no metric (all: trivium show metrics)")]
    problems: list[Problem] = []
    own = _loaded(named, settings, problems)
    own |= _loaded(also, settings, [])
    known: set[str] = set()
    for where, name, others in _names_in_settings(settings):
        # Paths are resolved when the metric is built, with a message of their own.
        if ":" in name or name in KNOWN_WITHOUT_LOADING or name in own or name in others:
            continue
        known = known or {*known_metrics(settings), *own}
        if name not in known:
            problems.append(Problem(where, no_metric(name, [*known, *others])))
    return problems


def _gated(name: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """The metric of a gate, and further names allowed in its place; see ``ACCEPTED``."""
    certificates = () if settings.judge is None else settings.judge.certificate
    certified = tuple(each.dimension for each in certificates if not isinstance(each, str))
    metric = name.removesuffix(f".{ACCEPTED}")
    return metric, (*AGGREGATES, ACCEPTED) if metric == name else certified


def _loaded(named: Sequence[str], settings: Settings, problems: list[Problem]) -> set[str]:
    """The registered names of the metrics; a class named by its path has such a name, too."""
    own = set()
    for index, name in enumerate(named):
        if name in CASE_FIGURES:
            continue
        try:
            own.add(metric_class(name, settings).name)
        except SuiteError as error:
            problems += [Problem(f"metrics[{index}]", each.what) for each in error.problems]
    return own


def _names_in_settings(settings: Settings) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each name in the settings: place, name, and names allowed there besides metrics."""
    if settings.success_rule.metric is not None:
        yield "success.metric", settings.success_rule.metric, ()
    if settings.passed is not None:
        yield "pass.metric", settings.passed.metric, AGGREGATES[:1]
    for name in settings.similarity:
        yield f"similarity.{name}", name, ()
    for name in settings.gates:
        yield f"gates.{name}".removesuffix(f".{ACCEPTED}"), *_gated(name, settings)
    for name in settings.composite.weights:
        yield f"composite.weights.{name}", name, ()
