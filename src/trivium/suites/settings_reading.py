"""Settings from what a user wrote: old names, types, and whether they make sense together."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import Problem
from trivium.suites.certificate import read_certificates
from trivium.suites.checking import raise_any
from trivium.suites.files.reading import read_document
from trivium.suites.judge_checking import judge_problems
from trivium.suites.legacy import OLD_KEYS, modern
from trivium.suites.rubrics.reading import chosen
from trivium.suites.settings import Gate, Settings, SuccessRule
from trivium.suites.validation import at, convert, describe, unknown_key

MERGED = frozenset({"tools", "messages", "judge", "composite", "limits"})
"""Settings of which a change names only some keys; other mappings are replaced whole."""

SETTING_KEYS = tuple(Settings.__struct_encode_fields__)

_PREDICATE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def read_config(path: str | Path) -> dict[str, Any]:
    """The raw settings of a .yaml, .json or .toml file that has no cases, such as a config_eval.json.

    Old keys are replaced by those of now, so that other settings can be laid over them.

    Raises:
        SuiteError: With every mistake found.
    """
    raw = read_document(Path(path))
    _, problems = settings_of(raw, folder=Path(path).parent)
    raise_any(problems, str(path))
    keys, _ = modern(raw)
    return keys


def changed(settings: Settings, changes: Mapping[str, Any], *, source: str) -> Settings:
    """Settings with some of them changed; see ``Suite.with_settings``."""
    made, problems = settings_of(merged(msgspec.to_builtins(settings), changes))
    raise_any(problems, source)
    return made


def merged(raw: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Raw settings with raw changes laid over them."""
    made = dict(raw)
    for name, value in changes.items():
        key = "pass" if name == "passed" else name
        plain = msgspec.to_builtins(value)
        old = made.get(key)
        both = key in MERGED and isinstance(old, Mapping) and isinstance(plain, Mapping)
        made[key] = {**old, **plain} if both and old is not None else plain
    return made


def settings_of(raw: Any, *, folder: Path = Path()) -> tuple[Settings, list[Problem]]:
    """Settings of raw keys, and every mistake found (with any, the settings are those of the right keys).

    Args:
        raw: The keys of a file.
        folder: Where the relative paths in them start.
    """
    if not isinstance(raw, Mapping):
        return Settings(), [Problem("", f"found {describe(raw)}, expected a mapping of settings")]
    keys, problems = modern(raw)
    for key in [key for key in keys if isinstance(key, str) and key not in SETTING_KEYS]:
        problems.append(Problem("", unknown_key(key, [*SETTING_KEYS, *OLD_KEYS])))
        del keys[key]
    judge = keys.get("judge")
    if isinstance(judge, Mapping) and "rubric" in judge:
        step = judge.get("step")
        step = step if isinstance(step, int | float) and 0 < step <= 1 else 1
        rubrics, wrong = chosen(judge["rubric"], folder, step=step)
        keys = {**keys, "judge": {**judge, "rubric": rubrics}}
        problems += wrong
    judge = keys.get("judge")
    if isinstance(judge, Mapping) and judge.get("certificate"):
        certificates, wrong = read_certificates(judge["certificate"], folder)
        keys = {**keys, "judge": {**judge, "certificate": certificates}}
        problems += wrong
    settings, wrong = convert(keys, Settings)
    problems += wrong
    if settings is None:
        right = {key: value for key, value in keys.items() if convert({key: value}, Settings)[0] is not None}
        return convert(right, Settings)[0] or Settings(), problems
    return settings, problems + _nonsense(settings)


def _nonsense(settings: Settings) -> list[Problem]:
    """What has the right types and still cannot be meant."""
    problems = _wrong_success(settings.success_rule)
    problems += _wrong_gates(settings.gates)
    for where, weights in (
        ("similarity", settings.similarity),
        ("composite.weights", settings.composite.weights),
    ):
        if not any(weights.values()):
            problems.append(Problem(where, "gives no part a weight above 0"))
    bars = settings.composite.thresholds
    if not bars.accept >= bars.weak_accept >= bars.weak_reject:
        problems.append(Problem("composite.thresholds", "expected accept ≥ weak_accept ≥ weak_reject"))
    if settings.judge is not None:
        problems += judge_problems(settings.judge)
    both = set(settings.messages.coordination) & set(settings.messages.productive)
    problems += [
        Problem("messages", f'"{word}" is both coordination and productive') for word in sorted(both)
    ]
    if settings.metrics is not None and not settings.metrics:
        problems.append(Problem("metrics", "names no metric; leave it out for all that apply"))
    if settings.encoder is not None and not settings.encoder.strip():
        problems.append(Problem("encoder", "is empty, expected the name of an encoder or a folder"))
    return problems


def _wrong_gates(gates: Mapping[str, Gate]) -> list[Problem]:
    problems = []
    for name, gate in gates.items():
        where = at("gates", name)
        if gate.at_least is None and gate.at_most is None:
            problems.append(Problem(where, "names no bar: expected at_least or at_most"))
        elif gate.at_least is not None and gate.at_most is not None and gate.at_least > gate.at_most:
            problems.append(Problem(where, f"{gate.at_least} to {gate.at_most} holds no value"))
        for side, limit in (("at_least", gate.at_least), ("at_most", gate.at_most)):
            if limit is not None and not 0 <= limit <= 1:
                problems.append(Problem(f"{where}.{side}", f"found {limit:g}, expected a score from 0 to 1"))
    return problems


def _wrong_success(rule: SuccessRule) -> list[Problem]:
    ways = [
        way
        for way in ("metric", "exact", "contains", "regex", "predicate", "reward")
        if getattr(rule, way) not in (None, False)
    ]
    expected = "expected one of metric, exact, contains, regex, predicate, reward"
    problems = []
    if len(ways) != 1:
        found = f"says {' and '.join(ways)}" if ways else "says no way"
        problems.append(Problem("success", f"{found}: {expected}"))
    if rule.metric is not None and rule.at_least is None:
        problems.append(Problem("success", '"at_least" is missing, the bar that the metric must reach'))
    if rule.metric is None and rule.at_least is not None:
        problems.append(Problem("success.at_least", "is the bar of a metric, and no metric is named"))
    if rule.ignore_case is not None and rule.contains is None:
        problems.append(Problem("success.ignore_case", "goes with success.contains only"))
    if rule.regex is not None:
        import regex

        try:
            regex.compile(rule.regex)
        except (regex.error, RecursionError, OverflowError) as wrong:
            problems.append(
                Problem("success.regex", f"{describe(rule.regex)} is no regular expression: {wrong}")
            )
    if rule.predicate is not None and not _PREDICATE.fullmatch(rule.predicate):
        found = describe(rule.predicate)
        problems.append(Problem("success.predicate", f"found {found}, expected package.module:function"))
    return problems
