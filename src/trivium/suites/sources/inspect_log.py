"""Inspect AI: the samples of a log as cases, its epochs as repeats (``inspect:FILE``, .eval or .json).

What was answered is read where attempts are; here the log tells what was asked, and how it was scored.
"""

from pathlib import Path
from typing import Any

from trivium.errors import SuiteError, TraceError
from trivium.inspect_logs.log import Log
from trivium.inspect_logs.scores import PREFIX, scores_of
from trivium.suites.checking import cases_of, raise_any
from trivium.suites.sources.registry import Found

OF_TRACES = ("tool_success", "task_balance", "time")
"""What can be measured of an attempt whatever its task, where the log tells of tool calls."""


def read(path: Path) -> Found:
    """The samples of a log, one case an id, and metrics for the scores that it holds.

    Raises:
        SuiteError: If it is no log, holds no sample, or a sample makes no case.
    """
    try:
        log = Log(path)
        raw: dict[str, dict[str, Any]] = {}
        names: dict[str, None] = {}
        lowest: dict[str, float] = {}
        repeats, acted = 1, False
        for sample in log.samples():
            raw.setdefault(sample.id, _case(sample.id, sample.raw))
            repeats = max(repeats, sample.epoch)
            acted = acted or bool(sample.raw.get("events")) or bool(sample.raw.get("messages"))
            for score in scores_of(sample.raw):
                names[score.name] = None
                if score.value is not None:
                    lowest[score.name] = min(score.value, lowest.get(score.name, 1.0))
    except TraceError as error:
        raise SuiteError(error.source, error.problems) from error
    if not raw:
        raise SuiteError(str(path), "holds no sample: expected a log that was kept with its samples")
    cases, problems = cases_of((f"sample {id_}", case) for id_, case in raw.items())
    raise_any(problems, str(path))
    settings: dict[str, Any] = {"metrics": [*names, *(OF_TRACES if acted else ())], "repeats": repeats}
    headline = _headline(log, list(lowest))
    if headline is not None:
        settings["success"] = {"metric": headline, "at_least": 1.0}
        settings["metrics"].insert(len(names), "success")
    if not settings["metrics"]:
        del settings["metrics"]
    return Found(log.task, cases, settings)


def _headline(log: Log, valued: list[str]) -> str | None:
    """The score that decides on success: the one the log is known by, else the first that has values."""
    named = f"{PREFIX}{log.headline}" if log.headline is not None else None
    return named if named in valued else next(iter(valued), None)


def _case(id_: str, raw: dict[str, Any]) -> dict[str, Any]:
    target = raw.get("target")
    references = [target] if isinstance(target, str) else target if isinstance(target, list) else []
    metadata = raw.get("metadata")
    kept = dict(metadata) if isinstance(metadata, dict) else {}
    if isinstance(raw.get("choices"), list):
        kept["choices"] = raw["choices"]
    return {
        "id": id_,
        "input": raw.get("input", ""),
        "references": [text for text in references if isinstance(text, str) and text],
        "metadata": kept,
    }
