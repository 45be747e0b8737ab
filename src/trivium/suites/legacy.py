"""Names from the project's first documents, read as what they are called now (spec: files)."""

from collections.abc import Mapping
from typing import Any

from trivium.errors import Problem
from trivium.suites.settings import DEFAULT_SIMILARITY
from trivium.suites.validation import describe

ALIASES = {
    "planning_rational": "planning_rationality",
    "output_similarity": "similarity",
    "time_taken": "time",
    "task_success": "success",
}
"""Old names of metrics."""

OLD_KEYS = {
    "similarity_metrics": "Parts that similarity keeps, with their usual weights; say similarity instead.",
    "confidence_threshold": "Similarity that is a success; say success instead.",
    "metrics_and_weights": "Weights of the composite; say composite.weights instead.",
}
"""Keys of a config_eval.json, and what they are now."""


def modern(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Raw settings with old keys and old names of metrics replaced, and what contradicts itself in them.

    ``similarity_metrics`` (a list) leaves those parts of ``similarity`` their weights and takes the others',
    ``confidence_threshold`` is the bar of ``success``, ``metrics_and_weights`` are ``composite.weights``.
    """
    keys = dict(raw)
    problems: list[Problem] = []
    _similarity_metrics(keys, problems)
    _confidence_threshold(keys, problems)
    _metrics_and_weights(keys, problems)
    if isinstance(metrics := keys.get("metrics"), str):
        keys["metrics"] = [metrics]
    if isinstance(metrics := keys.get("metrics"), list | tuple):
        names = [renamed(name) if isinstance(name, str) else name for name in metrics]
        keys["metrics"] = [name for index, name in enumerate(names) if name not in names[:index]]
    for key in ("success", "pass"):
        if isinstance(rule := keys.get(key), Mapping) and isinstance(rule.get("metric"), str):
            keys[key] = {**rule, "metric": renamed(rule["metric"])}
    if isinstance(gates := keys.get("gates"), Mapping):
        keys["gates"] = _renamed_keys(gates, "gates", problems)
    composite = keys.get("composite")
    if isinstance(composite, Mapping) and isinstance(weights := composite.get("weights"), Mapping):
        keys["composite"] = {**composite, "weights": _renamed_keys(weights, "composite.weights", problems)}
    return keys, problems


def renamed(name: str) -> str:
    """What a metric is called now."""
    return ALIASES.get(name, name)


def _similarity_metrics(keys: dict[str, Any], problems: list[Problem]) -> None:
    if "similarity_metrics" not in keys:
        return
    names = keys.pop("similarity_metrics")
    if _said_twice(keys, "similarity", "similarity_metrics", problems):
        return
    if (
        not isinstance(names, list | tuple)
        or not names
        or not all(name in DEFAULT_SIMILARITY for name in names)
    ):
        expected = f"a list of some of {', '.join(DEFAULT_SIMILARITY)}"
        problems.append(Problem("similarity_metrics", f"found {describe(names)}, expected {expected}"))
        return
    keys["similarity"] = {name: DEFAULT_SIMILARITY[name] for name in names}


def _confidence_threshold(keys: dict[str, Any], problems: list[Problem]) -> None:
    if "confidence_threshold" in keys:
        bar = keys.pop("confidence_threshold")
        if not isinstance(bar, int | float) or isinstance(bar, bool) or not 0 <= bar <= 1:
            found = f"found {describe(bar)}, expected a number from 0 to 1"
            problems.append(Problem("confidence_threshold", found))
        elif not _said_twice(keys, "success", "confidence_threshold", problems):
            keys["success"] = {"metric": "similarity", "at_least": bar}


def _metrics_and_weights(keys: dict[str, Any], problems: list[Problem]) -> None:
    if "metrics_and_weights" not in keys:
        return
    weights = keys.pop("metrics_and_weights")
    composite = keys.get("composite", {})
    if isinstance(composite, Mapping) and not _said_twice(
        composite, "weights", "metrics_and_weights", problems
    ):
        keys["composite"] = {**composite, "weights": weights}


def _said_twice(keys: Mapping[str, Any], new: str, old: str, problems: list[Problem]) -> bool:
    if new in keys:
        problems.append(Problem(old, f'is the old name of what "{new}" says too: leave one out'))
    return new in keys


def _renamed_keys(raw: Mapping[Any, Any], where: str, problems: list[Problem]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for name, value in raw.items():
        now = ALIASES.get(name, name) if isinstance(name, str) else name
        if now in made:
            problems.append(Problem(where, f'"{now}" is named twice, also by its old name'))
        made[now] = value
    return made
