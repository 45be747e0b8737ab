"""Unlike: what keeps the numbers of two runs from meaning the same (spec: metrics, B.5)."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trivium.runs.run import Run
from trivium.suites.canonical import digest_of
from trivium.suites.case import Case
from trivium.suites.settings import JudgeSettings, Settings

_MEANING = (
    "references",
    "group",
    "reduce",
    "failed_attempts",
    "similarity",
    "success",
    "passed",
    "tools",
    "messages",
)
"""Settings that change what a score means. The encoder is told by the scores, which name it."""
_OPERATION = frozenset(
    {"concurrency", "timeout", "budget_usd", "budget_tokens", "prices", "cache", "certificate"}
)
"""Settings of a judge that change what it costs or what is done with it, not what it says."""
_RECORDED = ("metrics", "judge")
"""Parts of the provenance that say how scores are made: versions of metrics, models and prompts of judges."""
_CASES_NAMED = 5


def differences(base: Run, head: Run) -> Iterator[str]:
    """Each difference that makes two runs unlike, in words."""
    if (base.record.kind == "human") != (head.record.kind == "human"):
        yield "one run holds people's own outputs, scored against each other: its references are others"
    for part in _RECORDED:
        yield from _recorded(part, base.provenance.get(part), head.provenance.get(part))
    yield from _settings(
        msgspec.convert(base.record.settings, Settings), msgspec.convert(head.record.settings, Settings)
    )
    if base.record.suite != head.record.suite:
        yield from _cases(base, head)


def _recorded(part: str, base: Any, head: Any) -> Iterator[str]:
    if not (isinstance(base, Mapping) and isinstance(head, Mapping)):
        return
    # What the settings say too is told once, by them.
    told = JudgeSettings.__struct_fields__ if part == "judge" else ()
    for name in base:
        if part == "judge" and name == "addresses" and name in head:
            yield from _addresses(base[name], head[name])
        elif name not in told and name in head and base[name] != head[name]:
            yield f"{part}.{name}: {_short(base[name])} in base, {_short(head[name])} in head"


def _addresses(base: Mapping[str, str | None], head: Mapping[str, str | None]) -> Iterator[str]:
    """Models that were asked elsewhere. One that was off was asked nowhere: its judgements are missing."""
    for model, ours in base.items():
        theirs = head.get(model)
        if ours is not None and theirs is not None and ours != theirs:
            yield f"{model} was asked at {ours} in base, at {theirs} in head"


def _settings(base: Settings, head: Settings) -> Iterator[str]:
    pairs = {name: (getattr(base, name), getattr(head, name)) for name in _MEANING}
    pairs["composite.weights"] = base.composite.weights, head.composite.weights
    pairs["composite.missing"] = base.composite.missing, head.composite.missing
    if base.judge and head.judge:
        asked = [name for name in JudgeSettings.__struct_fields__ if name not in _OPERATION]
        pairs |= {f"judge.{name}": (_told(base.judge, name), _told(head.judge, name)) for name in asked}
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield f"{'pass' if name == 'passed' else name}: {_short(ours)} in base, {_short(theirs)} in head"


def _told(judge: JudgeSettings, name: str) -> Any:
    """A setting of a judge; a rubric of the suite's own by its name and digest."""
    if name != "rubric":
        return getattr(judge, name)
    return [each if isinstance(each, str) else f"{each.name} {each.digest}" for each in judge.rubric]


def _cases(base: Run, head: Run) -> Iterator[str]:
    known = {case.id: _content(case) for case in base.cases()}
    changed = [case.id for case in head.cases() if known.get(case.id, content := _content(case)) != content]
    if changed:
        named = ", ".join(changed[:_CASES_NAMED]) + (", …" if len(changed) > _CASES_NAMED else "")
        yield f"{len(changed):,} of the cases are not what they were: {named}"


def _content(case: Case) -> str:
    """Digest of what a case asks and expects; tags and metadata are labels on it."""
    return digest_of([msgspec.structs.replace(case, tags=(), metadata={})])


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"
