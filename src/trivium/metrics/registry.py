"""Which metrics there are. A new built-in metric is one file and one line here.

Other packages add theirs through the entry-point group ``trivium.metrics``; a suite may also name a class
directly as ``package.module:Class``.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from trivium.errors import Problem, SuiteError, suggest
from trivium.metrics.metric import REGISTERED, Metric
from trivium.suites.legacy import renamed
from trivium.suites.settings import Settings

BUILT_IN = {
    "cosine": "trivium.metrics.text.cosine:Cosine",
    "jaccard": "trivium.metrics.text.jaccard:Jaccard",
    "semantic": "trivium.metrics.text.semantic:Semantic",
    "similarity": "trivium.metrics.text.similarity:Similarity",
    "success": "trivium.metrics.text.success:Success",
    "time": "trivium.metrics.text.time:Time",
    "rouge_l": "trivium.metrics.text.extras:RougeL",
    "bleu": "trivium.metrics.text.extras:Bleu",
    "chrf": "trivium.metrics.text.extras:Chrf",
    "edit": "trivium.metrics.text.extras:Edit",
    "path_convergence": "trivium.metrics.graph.path_convergence:PathConvergence",
    "tool_selection": "trivium.metrics.graph.tool_selection:ToolSelection",
    "tool_recall": "trivium.metrics.graph.tool_recall:ToolRecall",
    "tool_success": "trivium.metrics.graph.tool_success:ToolSuccess",
    "tool_efficiency": "trivium.metrics.graph.tool_efficiency:ToolEfficiency",
    "action_match": "trivium.metrics.graph.action_match:ActionMatch",
    "complexity": "trivium.metrics.graph.complexity:Complexity",
    "communication_overhead": "trivium.metrics.graph.communication:CommunicationOverhead",
    "centrality": "trivium.metrics.graph.centrality:Centrality",
    "coordination_quality": "trivium.metrics.graph.coordination:CoordinationQuality",
    "task_balance": "trivium.metrics.graph.balance:TaskBalance",
}

CASE_FIGURES = ("path_agreement",)
"""Figures of a case, not of an attempt (spec: metrics, T3.14); a suite may name them too."""

PLANNING = "planning_rationality"
"""The judged dimension that is a part of the composite: measured wherever a suite names no metrics."""

_JUDGED = "trivium.metrics.judge.dimensions"
"""Holds the judged dimensions; named, not imported, so that the tiers know nothing of each other."""

OFF_BY_DEFAULT = frozenset({"rouge_l", "bleu", "chrf", "edit"})


@cache
def _from_packages() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group="trivium.metrics")}


def _judged() -> Mapping[str, type[Metric]]:
    judged: Mapping[str, type[Metric]] = import_module(_JUDGED).JUDGED
    return judged


def whole_rubric(name: str) -> tuple[str, ...]:
    """The metrics that a rubric stands for; none if there is no such rubric."""
    found: tuple[str, ...] = import_module(_JUDGED).WHOLE.get(name, ())
    return found


def known_metrics() -> tuple[str, ...]:
    """Every name that a suite may use now, built-in ones first."""
    return tuple(dict.fromkeys([*BUILT_IN, *CASE_FIGURES, *_judged(), *_from_packages(), *REGISTERED]))


def no_metric(name: str, known: Iterable[str]) -> str:
    """What is said of a name that no metric has."""
    return f'no metric is called "{name}".{suggest(name, known)} (all: trivium show metrics)'


def metric_class(name: str) -> type[Metric]:
    """The class of a metric, imported when it is first asked for.

    Args:
        name: A known name, an alias, or ``package.module:Class``.

    Raises:
        SuiteError: If no metric is called that, or the named class cannot be had.
    """
    name = renamed(name)
    if name in REGISTERED:
        return REGISTERED[name]
    judged = _judged()
    if name not in BUILT_IN and (name := import_module(_JUDGED).LONG_NAMES.get(name, name)) in judged:
        return judged[name]
    target = BUILT_IN.get(name) or _from_packages().get(name) or (name if ":" in name else None)
    if target is None:
        raise SuiteError("", Problem("metrics", no_metric(name, known_metrics())))
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SuiteError("", Problem("metrics", f'"{name}" cannot be loaded: {error}')) from error
    if not (isinstance(found, type) and issubclass(found, Metric)):
        raise SuiteError("", Problem("metrics", f'"{name}" is no Metric class'))
    return found


def default_metrics(settings: Settings) -> tuple[str, ...]:
    """The metrics that a suite names, or else every one that is not off by default, and its rubrics.

    The name of a rubric stands for its dimensions.
    """
    if settings.metrics is not None:
        return tuple(
            dict.fromkeys(each for name in settings.metrics for each in whole_rubric(name) or (name,))
        )
    rubrics = settings.judge.rubric if settings.judge is not None else ()
    off = OFF_BY_DEFAULT | _judged().keys()
    computed = [name for name in known_metrics() if name not in off]
    return tuple(
        dict.fromkeys([*computed, PLANNING, *(each for name in rubrics for each in whole_rubric(name))])
    )


def build_metrics(names: Iterable[str], settings: Settings) -> list[Metric]:
    """Metrics of attempts ready to score, with everything they need, in an order that serves it.

    Figures of a case (``CASE_FIGURES``) may be among the names; they are worked out when a run ends.

    Raises:
        SuiteError: If a name is unknown, or metrics need each other in a circle.
    """
    ordered: dict[str, Metric] = {}

    def add(name: str, wanted_by: tuple[str, ...]) -> None:
        cls = metric_class(name)
        if cls.name in ordered:
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
    seated: list[Metric] = import_module(_JUDGED).seat(list(ordered.values()), settings)
    return seated
