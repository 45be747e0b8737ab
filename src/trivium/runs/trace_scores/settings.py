"""Settings of a run of traces that belong to no suite: no metric may need what no trace has."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import InputError, Problem, SuiteError
from trivium.metrics.registry import (
    CASE_FIGURES,
    asked_metrics,
    metric_class,
    metrics_without_expectation,
)
from trivium.suites.rubrics.rubric import Rubric
from trivium.suites.settings import JudgeSettings, Settings
from trivium.suites.settings_loader import read_config, with_changes

COMPLETED = "completed"
"""The metric that decides whether a trace passed."""

DEFAULT_RUBRIC = "agent"

Judge = str | Sequence[str] | JudgeSettings | Mapping[str, Any]
Rubrics = str | Rubric | Sequence[str | Rubric]


def settings_of_traces(
    metrics: Sequence[str] | None,
    judge: Judge | None,
    rubric: Rubrics | None,
    config: str | PathLike[str] | None,
) -> Settings:
    """Settings of the run: only ``completed`` has a weight, since nothing says whether a result is right."""
    keys: dict[str, Any] = {
        "passed": {"metric": COMPLETED},
        "composite": {"weights": {COMPLETED: 1.0}},
    }
    settings = with_changes(Settings(), keys, source="settings")
    if config is not None:
        settings = with_changes(settings, read_config(Path(config)), source=str(config))
    judged = _judge(judge, rubric, settings)
    if judged:
        settings = with_changes(settings, {"judge": judged}, source="judge")
    if metrics is not None:
        settings = with_changes(settings, {"metrics": list(metrics)}, source="metrics")
    if settings.metrics is None:
        every = {"metrics": list(metrics_without_expectation(settings))}
        return with_changes(settings, every, source="metrics")
    _check_expectations(settings)
    return settings


def _judge(judge: Judge | None, rubric: Rubrics | None, settings: Settings) -> dict[str, Any]:
    """The keys of ``judge`` that the options change."""
    changes: dict[str, Any] = {}
    if isinstance(judge, JudgeSettings | Mapping):
        changes = dict(msgspec.to_builtins(judge))
    elif judge is not None:
        changes = {"models": [judge] if isinstance(judge, str) else list(judge)}
    elif rubric is not None and (settings.judge is None or not settings.judge.models):
        raise InputError("rubric", "needs a judge: name its model, such as openai:gpt-4o-mini")
    if rubric is not None:
        changes["rubric"] = [rubric] if isinstance(rubric, str | Rubric) else list(rubric)
    elif judge is not None and settings.judge is None:
        changes.setdefault("rubric", [DEFAULT_RUBRIC])
    return changes


def _check_expectations(settings: Settings) -> None:
    """Refuse metrics that need what no trace has."""
    problems = []
    for name in asked_metrics(settings):
        fields = () if name in CASE_FIGURES else _case_fields(name, settings)
        if fields:
            what = (
                f"{name} needs {' or '.join(fields)}, which a trace does not state. With a suite that does: "
                "trivium score SUITE --outputs traces:FILE"
            )
            problems.append(Problem("metrics", what))
    if problems:
        raise InputError("", problems)


def _case_fields(name: str, settings: Settings) -> tuple[str, ...]:
    try:
        return metric_class(name, settings).from_settings(settings).case_fields
    except SuiteError:  # an unknown name, which is reported with its nearest one when the run begins
        return ()
