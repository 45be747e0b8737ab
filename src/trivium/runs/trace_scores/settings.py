"""Settings of a run of traces that belong to no suite: no metric may need what no trace has."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec

from trivium.errors import InputError, Problem, SuiteError
from trivium.metrics.registry import (
    CASE_FIGURES,
    asked_metrics,
    metric_class,
    metrics_without_expectation,
)
from trivium.runs.engines.processes import Engine
from trivium.runs.pipeline import Progress
from trivium.runs.trace_scores.selection import Moment
from trivium.store.store import Store
from trivium.suites.rubrics.rubric import Rubric
from trivium.suites.settings import JudgeSettings, Settings
from trivium.suites.settings_loader import read_config, with_changes

COMPLETED = "completed"
"""The metric that decides whether a trace passed."""

DEFAULT_RUBRIC = "agent"

Judge = str | Sequence[str] | JudgeSettings | Mapping[str, Any]
Rubrics = str | Rubric | Sequence[str | Rubric]


class TraceScoringOptions(TypedDict, total=False):
    """Keywords of :func:`score_traces`.

    Attributes:
        format: Format of all files; detected for each if None.
        by: What is scored: each ``trace``, or each ``conversation``, whose traces are its turns.
        metrics: Metrics that replace those; none may need an expectation.
        judge: Model or models that judge the traces by a rubric, or settings of the judge.
        rubric: Rubric or rubrics of the judge (default: ``agent``); dimensions that need a reference are left
            out.
        trace_ids: Score only traces with one of these ids.
        tags: Score only traces with one of these tags.
        agents: Score only traces in which one of these agents acted.
        since: Score only traces that began then or later: a datetime, an ISO date or time, or ``24h``.
        until: Score only traces that began before this time.
        name: Name of the run's suite (default: the name of the first file or folder).
        config: A file of settings, such as ``tools``, ``messages``, ``judge`` and ``gates``.
        store: The store, or its URL.
        resume: Id of an interrupted run of the same traces to finish.
        workers: Number of processes that score; see :func:`trivium.evaluate`.
        engine: Where they run: ``local``, or ``ray`` for a Ray cluster. This process reads the files.
        progress: Receives the progress of the run.
    """

    format: str | None
    by: Literal["trace", "conversation"]
    metrics: Sequence[str] | None
    judge: Judge | None
    rubric: Rubrics | None
    trace_ids: Sequence[str]
    tags: Sequence[str]
    agents: Sequence[str]
    since: Moment | None
    until: Moment | None
    name: str | None
    config: str | PathLike[str] | None
    store: str | Path | Store
    resume: str | None
    workers: int | None
    engine: Engine
    progress: Progress | None


def settings_of_traces(
    metrics: Sequence[str] | None,
    judge: Judge | None,
    rubric: Rubrics | None,
    config: str | PathLike[str] | None,
) -> Settings:
    """Settings of the run: what is ``completed`` passes, since nothing says whether a result is right."""
    settings = with_changes(Settings(), {"passed": {"metric": COMPLETED}}, source="settings")
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


def _judge(judge: Judge | None, rubric: Rubrics | None, settings: Settings) -> dict[str, object]:
    """The keys of ``judge`` that the options change."""
    changes: dict[str, object] = {}
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
        fields: tuple[str, ...] = ()
        with suppress(SuiteError):  # of an unknown name, which is reported when the run begins
            if name not in CASE_FIGURES:
                fields = metric_class(name, settings).from_settings(settings).case_fields
        if fields:
            what = (
                f"{name} needs {' or '.join(fields)}, which a trace does not state. With a suite that does: "
                "trivium score SUITE --outputs traces:FILE"
            )
            problems.append(Problem("metrics", what))
    if problems:
        raise InputError("", problems)
