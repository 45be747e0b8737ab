"""Trivium evaluates LLM agents and says how far each number can be trusted.

The public names are imported on first use, so that ``import trivium`` is fast.
"""

from trivium._version import __version__

TYPE_CHECKING = False  # importing it from typing would double the import time
if TYPE_CHECKING:
    from typing import Any

    from trivium import trust as trust
    from trivium.agents.attempt import Attempt as Attempt
    from trivium.agents.attempt import Usage as Usage
    from trivium.agents.worlds.mocks import mock_tools as mock_tools
    from trivium.agents.worlds.world import World as World
    from trivium.errors import InputError as InputError
    from trivium.errors import MissingExtra as MissingExtra
    from trivium.errors import RegressionError as RegressionError
    from trivium.errors import TriviumError as TriviumError
    from trivium.metrics.metric import Metric as Metric
    from trivium.metrics.metric import MetricInput as MetricInput
    from trivium.metrics.metric import Score as Score
    from trivium.metrics.metric import Skip as Skip
    from trivium.metrics.metric import TextMetric as TextMetric
    from trivium.metrics.metric import TraceMetric as TraceMetric
    from trivium.metrics.registry import metric as metric
    from trivium.metrics.scoring import score as score
    from trivium.monitor.monitor import Monitor as Monitor
    from trivium.runs.comparing.compare import compare as compare
    from trivium.runs.comparing.comparison import Comparison as Comparison
    from trivium.runs.comparing.planning import ComparisonPlan as ComparisonPlan
    from trivium.runs.comparing.planning import plan as plan
    from trivium.runs.confirming.confirm import confirm as confirm
    from trivium.runs.confirming.confirm import confirm_async as confirm_async
    from trivium.runs.evaluate import evaluate as evaluate
    from trivium.runs.evaluate import evaluate_async as evaluate_async
    from trivium.runs.pairwise import judge_pairs as judge_pairs
    from trivium.runs.pairwise_result import PairComparison as PairComparison
    from trivium.runs.run import Run as Run
    from trivium.runs.summary import Summary as Summary
    from trivium.runs.trace_scores.report import TraceReport as TraceReport
    from trivium.runs.trace_scores.score import score_traces as score_traces
    from trivium.store.store import Store as Store
    from trivium.suites.case import Case as Case
    from trivium.suites.case import Expect as Expect
    from trivium.suites.case import ExpectedTool as ExpectedTool
    from trivium.suites.rubrics.rubric import Criterion as Criterion
    from trivium.suites.rubrics.rubric import Dimension as Dimension
    from trivium.suites.rubrics.rubric import Example as Example
    from trivium.suites.rubrics.rubric import Level as Level
    from trivium.suites.rubrics.rubric import Rubric as Rubric
    from trivium.suites.settings import JudgeSettings as JudgeSettings
    from trivium.suites.settings import Settings as Settings
    from trivium.suites.suite import Suite as Suite
    from trivium.traces import recording as trace  # noqa: F401 - renamed
    from trivium.traces.readers.collection import read_trace_file as read_traces  # noqa: F401
    from trivium.traces.trace import Message as Message
    from trivium.traces.trace import Span as Span
    from trivium.traces.trace import Trace as Trace

_HOMES = {
    "agents.attempt": ("Attempt", "Usage"),
    "agents.worlds.mocks": ("mock_tools",),
    "agents.worlds.world": ("World",),
    "errors": ("InputError", "MissingExtra", "RegressionError", "TriviumError"),
    "metrics.metric": ("Metric", "MetricInput", "Score", "Skip", "TextMetric", "TraceMetric"),
    "metrics.registry": ("metric",),
    "metrics.scoring": ("score",),
    "monitor.monitor": ("Monitor",),
    "runs.comparing.compare": ("compare",),
    "runs.comparing.comparison": ("Comparison",),
    "runs.comparing.planning": ("ComparisonPlan", "plan"),
    "runs.confirming.confirm": ("confirm", "confirm_async"),
    "runs.evaluate": ("evaluate", "evaluate_async"),
    "runs.pairwise": ("judge_pairs",),
    "runs.pairwise_result": ("PairComparison",),
    "runs.run": ("Run",),
    "runs.summary": ("Summary",),
    "runs.trace_scores.report": ("TraceReport",),
    "runs.trace_scores.score": ("score_traces",),
    "store.store": ("Store",),
    "suites.case": ("Case", "Expect", "ExpectedTool"),
    "suites.rubrics.rubric": ("Criterion", "Dimension", "Example", "Level", "Rubric"),
    "suites.settings": ("JudgeSettings", "Settings"),
    "suites.suite": ("Suite",),
    "traces.readers.collection": ("read_traces",),
    "traces.trace": ("Message", "Span", "Trace"),
}
"""The names of each module."""

_HOME = {name: home for home, names in _HOMES.items() for name in names}
_OWN_NAMES = {"read_traces": "read_trace_file"}
_ROOMS = {"trace": "trivium.traces.recording", "trust": "trivium.trust"}

__all__ = ["__version__", *_ROOMS, *_HOME]  # noqa: PLE0604 - the names of the table above


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _ROOMS:
        return import_module(_ROOMS[name])
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'trivium' has no attribute {name!r}") from None
    value = getattr(import_module(f"trivium.{home}"), _OWN_NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
