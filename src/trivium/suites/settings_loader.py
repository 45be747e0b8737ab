"""Converts raw keys to settings and lists every mistake in them.

Deprecated keys and metric names are replaced by current ones first.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem, raise_problems, suggest
from trivium.masking import mask
from trivium.records.documents import read_document
from trivium.records.validation import at, convert, describe, unknown_key
from trivium.suites.agent_settings import AgentSettings, agent_problems, header_problems
from trivium.suites.certificate import read_certificates
from trivium.suites.monitor_settings import monitor_problems
from trivium.suites.rubrics.loader import load_judge_rubrics, step_problem
from trivium.suites.settings import (
    CRITERIA,
    DEFAULT_SIMILARITY,
    LEFT_OUT,
    Gate,
    JudgeSettings,
    ServerSettings,
    Settings,
    SuccessRule,
)
from trivium.suites.simulated_users import user_problems
from trivium.suites.world_settings import with_folder, world_problems
from trivium.values import JsonObject, is_number

MERGED = frozenset({"tools", "messages", "retrieval", "judge", "composite", "limits", "monitor", "user"})
"""Settings whose changes are merged key by key; other mappings are replaced as a whole."""

SETTING_KEYS = tuple(Settings.__struct_encode_fields__)

_PREDICATE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def read_config(path: str | Path) -> JsonObject:
    """Read raw settings from a .yaml, .json or .toml file without cases, such as a config_eval.json.

    Deprecated keys are replaced, so that other settings can be merged into the result.

    Raises:
        SuiteError: With every mistake found.
    """
    raw = read_document(Path(path))
    _, problems = parse_settings(raw, folder=Path(path).parent)
    raise_problems(problems, str(path))
    keys, _ = replace_old_keys(raw)
    return keys


def with_changes(settings: Settings, changes: Mapping[str, Any], *, source: str) -> Settings:
    """Change some settings; see ``Suite.with_settings``."""
    made, problems = parse_settings(merge_settings(msgspec.to_builtins(settings), changes))
    raise_problems(problems, source)
    return made


def merge_settings(raw: Mapping[str, Any], changes: Mapping[str, Any]) -> JsonObject:
    """Merge raw changes into raw settings."""
    made = dict(raw)
    for name, value in changes.items():
        key = "pass" if name == "passed" else name
        plain = msgspec.to_builtins(value)
        old = made.get(key)
        both = key in MERGED and isinstance(old, Mapping) and isinstance(plain, Mapping)
        made[key] = {**old, **plain} if both and old is not None else plain
    return made


def parse_settings(raw: Any, *, folder: Path = Path()) -> tuple[Settings, list[Problem]]:
    """Convert raw keys to settings, and list every mistake; settings with mistakes get their defaults.

    Args:
        raw: The keys of a file.
        folder: Base folder of relative paths.
    """
    if not isinstance(raw, Mapping):
        return Settings(), [Problem("", f"found {describe(raw)}, expected a mapping of settings")]
    keys, problems = replace_old_keys(raw)
    for key in [key for key in keys if isinstance(key, str) and key not in SETTING_KEYS]:
        problems.append(Problem("", unknown_key(key, [*SETTING_KEYS, *OLD_KEYS])))
        del keys[key]
    if not isinstance(keys.get("gates", {}), Mapping):
        found = describe(keys.pop("gates"))
        expected = "a mapping such as {pass_rate: {at_least: 0.8}}"
        problems.append(Problem("gates", f"found {found}, expected {expected}"))
    if isinstance(judge := keys.get("judge"), Mapping):
        judge = keys["judge"] = dict(judge)
        if "rubric" in judge:
            step = judge.get("step")
            step = step if isinstance(step, int | float) and 0 < step <= 1 else 1
            judge["rubric"], wrong = load_judge_rubrics(judge["rubric"], folder, step=step)
            problems += wrong
        if judge.get("certificate"):
            judge["certificate"], wrong = read_certificates(judge["certificate"], folder)
            problems += wrong
    if "world" in keys:
        keys["world"] = with_folder(keys["world"], folder)
    settings, wrong = convert(keys, Settings)
    problems += wrong
    if settings is None:
        right = {key: value for key, value in keys.items() if convert({key: value}, Settings)[0] is not None}
        return convert(right, Settings)[0] or Settings(), problems
    return settings, [*problems, *_semantic_problems(settings)]


def _semantic_problems(settings: Settings) -> Iterator[Problem]:
    """Yield the mistakes in settings whose types are correct."""
    yield from _success_problems(settings.success_rule)
    yield from _gate_problems(settings.gates)
    for where, weights in (
        ("similarity", settings.similarity),
        ("composite.weights", settings.composite.weights),
    ):
        if not any(weights.values()):
            yield Problem(where, "gives no part a weight above 0")
    thresholds = settings.composite.thresholds
    if not thresholds.accept >= thresholds.weak_accept >= thresholds.weak_reject:
        yield Problem("composite.thresholds", "expected accept ≥ weak_accept ≥ weak_reject")
    if isinstance(settings.agent, AgentSettings):
        yield from agent_problems(settings.agent)
    if settings.world is not None:
        yield from world_problems(settings.world)
    yield from _models_problems(settings)
    for word in sorted(set(settings.messages.coordination) & set(settings.messages.productive)):
        yield Problem("messages", f'"{word}" is both coordination and productive')
    if settings.monitor is not None:
        yield from monitor_problems(settings.monitor)
    if settings.metrics is not None and not settings.metrics:
        yield Problem("metrics", "names no metric; leave it out for all that apply")
    if settings.encoder is not None and not settings.encoder.strip():
        yield Problem("encoder", "is empty, expected the name of an encoder or a folder")


def _models_problems(settings: Settings) -> Iterator[Problem]:
    """Yield the mistakes about the models that judge, and that play users."""
    if settings.user is not None:
        yield from user_problems(settings.user)
    if settings.judge is not None:
        yield from judge_problems(settings.judge, users=settings.user.model if settings.user else ())


def _gate_problems(gates: Mapping[str, Gate]) -> Iterator[Problem]:
    for name, gate in gates.items():
        where = at("gates", name)
        if gate.at_least is None and gate.at_most is None:
            yield Problem(where, "names no threshold: expected at_least or at_most")
        elif gate.at_least is not None and gate.at_most is not None and gate.at_least > gate.at_most:
            yield Problem(where, f"{gate.at_least} to {gate.at_most} holds no value")
        for side, limit in (("at_least", gate.at_least), ("at_most", gate.at_most)):
            if limit is not None and not 0 <= limit <= 1:
                yield Problem(f"{where}.{side}", f"found {limit:g}, expected a score from 0 to 1")


def _success_problems(rule: SuccessRule) -> Iterator[Problem]:
    criteria = [key for key in CRITERIA if (value := getattr(rule, key)) is not None and value is not False]
    if len(criteria) != 1 and not ((rule.state or rule.turns) and not criteria):
        found = f"names {' and '.join(criteria)}" if criteria else "names no criterion"
        yield Problem("success", f"{found}: expected one of {', '.join(CRITERIA)}")
    if rule.metric is not None and rule.at_least is None:
        yield Problem("success", '"at_least" is missing, the threshold of the metric')
    if rule.metric is None and rule.at_least is not None:
        yield Problem("success.at_least", "is the threshold of a metric, and no metric is named")
    if rule.ignore_case is not None and rule.contains is None:
        yield Problem("success.ignore_case", "goes with success.contains only")
    if rule.regex is not None:
        import regex

        try:
            regex.compile(rule.regex)
        except (regex.error, RecursionError, OverflowError) as wrong:
            yield Problem("success.regex", f"{describe(rule.regex)} is no regular expression: {wrong}")
    if rule.predicate is not None and not _PREDICATE.fullmatch(rule.predicate):
        found = describe(rule.predicate)
        yield Problem("success.predicate", f"found {found}, expected package.module:function")


ALIASES = {
    "planning_rational": "planning_rationality",
    "output_similarity": "similarity",
    "time_taken": "time",
    "task_success": "success",
}
"""Old names of metrics."""

OLD_KEYS = {
    "similarity_metrics": "Parts of similarity, with their default weights; use similarity instead.",
    "confidence_threshold": "Threshold of similarity for a success; use success instead.",
    "metrics_and_weights": "Weights of the composite; use composite.weights instead.",
}
"""Deprecated keys of a config_eval.json, and their replacements."""


def replace_old_keys(raw: Mapping[str, Any]) -> tuple[JsonObject, list[Problem]]:
    """Replace deprecated keys and metric names in raw settings, and list contradictions.

    ``similarity_metrics`` (a list) becomes ``similarity`` with the default weights of these parts,
    ``confidence_threshold`` becomes the threshold of ``success``, ``metrics_and_weights`` becomes
    ``composite.weights``.
    """
    keys = dict(raw)
    problems: list[Problem] = []
    for old, new, made_of in _REPLACED:
        if old in keys:
            _replace(keys, old, new, made_of(keys[old]), problems)
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
    """Return the current name of a metric."""
    return ALIASES.get(name, name)


def _replace(keys: JsonObject, old: str, new: str, made: Any, problems: list[Problem]) -> None:
    """Put a value in place of a deprecated key, unless it is given twice; a text says what is expected."""
    given = keys.pop(old)
    first, _, part = new.partition(".")
    held = keys.get(first, {}) if part else keys
    name = part or first
    if not isinstance(held, Mapping):
        return  # which is told as a mistake itself
    if name in held:
        problems.append(Problem(old, f'is the old name of "{name}", which is given, too: leave one out'))
    elif isinstance(made, str):
        problems.append(Problem(old, f"found {describe(given)}, expected {made}"))
    else:
        keys[first] = {**held, part: made} if part else made


def _similarity_of(names: Any) -> dict[str, float] | str:
    if isinstance(names, list | tuple) and names and all(name in DEFAULT_SIMILARITY for name in names):
        return {name: DEFAULT_SIMILARITY[name] for name in names}
    return f"a list of some of {', '.join(DEFAULT_SIMILARITY)}"


def _success_of(threshold: Any) -> JsonObject | str:
    if is_number(threshold) and 0 <= threshold <= 1:
        return {"metric": "similarity", "at_least": threshold}
    return "a number from 0 to 1"


def _weights_of(weights: Any) -> Any:
    return "a mapping of metrics to weights" if isinstance(weights, str) else weights


_REPLACED: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("similarity_metrics", "similarity", _similarity_of),
    ("confidence_threshold", "success", _success_of),
    ("metrics_and_weights", "composite.weights", _weights_of),
)
"""Deprecated keys, what replaces them, and a function that makes its value, or says what is expected."""


def _renamed_keys(raw: Mapping[Any, Any], where: str, problems: list[Problem]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for name, value in raw.items():
        now = ALIASES.get(name, name) if isinstance(name, str) else name
        if now in made:
            problems.append(Problem(where, f'"{now}" is named twice, also by its old name'))
        made[now] = value
    return made


_PARAMETERS_WITH_A_SETTING = ("temperature", "seed", "max_tokens", "reasoning_effort")
_RESERVED_PARAMETERS = frozenset(
    {"messages", "model", "stream", "n", "input", "system", "response_format", "tools", "tool_choice"}
)
"""Request parameters that Trivium sets: the prompt and the response format."""


def judge_problems(judge: JudgeSettings, *, users: Sequence[str] = ()) -> Iterator[Problem]:
    """Yield the mistakes in the settings of a judge whose types are correct.

    Args:
        judge: The settings.
        users: Models that play simulated users, which have servers as well.
    """
    if wrong := step_problem(judge.step):
        yield Problem("judge.step", wrong)
    yield from _parameter_problems(judge)
    named = {*judge.models, *users, *chain.from_iterable(judge.models_by_complexity.values())}
    for name, server in judge.servers.items():
        where = at("judge.servers", name)
        if name not in named:
            hint = suggest(name, named) or " Name a model of judge.models."
            yield Problem(where, f"no model of this judge has this name.{hint}")
        yield from _server_problems(where, server)


def _parameter_problems(judge: JudgeSettings) -> Iterator[Problem]:
    for name, value in judge.parameters.items():
        where = at("judge.parameters", name)
        if value is None:
            if name not in LEFT_OUT:
                known = ", ".join(LEFT_OUT)
                yield Problem(where, f"is not sent anyway; null leaves out one of {known}")
            elif name in _PARAMETERS_WITH_A_SETTING and getattr(judge, name) is not None:
                yield Problem(where, f"leaves out what judge.{name} sets")
            elif name == "max_tokens" and (judge.budget_usd is not None or judge.budget_tokens is not None):
                yield Problem(where, "a budget needs a bound on the tokens of an answer")
        elif name in _PARAMETERS_WITH_A_SETTING:
            yield Problem(where, f"write it as judge.{name}")
        elif name in _RESERVED_PARAMETERS or name in ("logprobs", "top_logprobs"):
            yield Problem(
                where, f"found {describe(value)}: it is set by Trivium, and can only be left out (null)"
            )


def _server_problems(where: str, server: ServerSettings) -> Iterator[Problem]:
    if server.base_url is not None and mask(server.base_url) != server.base_url:
        yield Problem(at(where, "base_url"), "holds a secret: write ${NAME}, an environment variable")
    yield from header_problems(at(where, "headers"), server.headers)
    for name in server.body:
        if name in _RESERVED_PARAMETERS - {"model"}:
            yield Problem(at(at(where, "body"), name), "is set by Trivium")
