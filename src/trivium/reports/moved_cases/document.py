"""The JSON document of a comparison: the record, with the texts of the first moved cases."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from trivium.reports.moved_cases.shown import Call, judged_differently, tool_calls
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.comparing.moved_cases import CaseChange, MovedCase, MovedCases, ScoredAttempt
from trivium.safe_text import as_json
from trivium.values import batched

CASES_WITH_TEXTS = 100
TEXT_CHARS = 2_000
CALLS_LISTED = 100

ENCODED_AT_ONCE = 1_000
"""Changes of cases that are in memory as JSON."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of one side: what it answered, whether it passed, why not, and how it failed.

    Attributes:
        changes: What it changed in its world; absent without one.
    """

    output: str | None
    passed: bool | None
    why: str | None
    error: str | None
    changes: list[str] | UnsetType = UNSET


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's reasons for a metric on both sides, where they differ."""

    metric: str
    base: str | None
    head: str | None


class ChangeWithTexts(CaseChange, frozen=True, kw_only=True):
    """How a case changed, with the texts of an attempt of each side.

    Attributes:
        repeat: Which attempt it is, from 0.
        input: The question.
        references: Its references.
        base: The attempt of base.
        head: The attempt of head.
        reasons: What judges said differently.
        tool_calls: Tool calls of both, in order; absent if they are the same.
        tool_calls_left_out: Number of calls that are not listed.
    """

    repeat: int
    input: str | None
    references: list[str | None]
    base: Side
    head: Side
    reasons: list[Reasons]
    tool_calls: list[Call] | UnsetType = UNSET
    tool_calls_left_out: int | UnsetType = UNSET


def comparison_document(comparison: Comparison, *, cases: int = CASES_WITH_TEXTS) -> dict[str, Any]:
    """The comparison as plain values.

    Args:
        comparison: The comparison.
        cases: Largest number of moved cases whose texts are included; the values of all are.

    Raises:
        StoreError: If the cases cannot be read.
    """
    document = _without_changes(comparison)
    document["moved_cases"]["changes"] = [
        msgspec.to_builtins(change) for change in _changes(comparison.moved_cases, cases)
    ]
    return document


def comparison_json(comparison: Comparison, *, cases: int = CASES_WITH_TEXTS) -> Iterator[bytes]:
    """Yield the same as indented JSON, piece by piece; memory does not grow with the cases that moved.

    Args:
        comparison: The comparison.
        cases: Largest number of moved cases whose texts are included; the values of all are.

    Raises:
        StoreError: If the cases cannot be read.
    """
    # A text in JSON has no line breaks, and no field before has an empty list at this depth.
    before, mark, after = _indented(_without_changes(comparison)).partition(b'\n    "changes": []')
    start = mark.removesuffix(b"]")
    for some in batched(_changes(comparison.moved_cases, cases), ENCODED_AT_ONCE):
        lines = _indented(some).removeprefix(b"[").removesuffix(b"\n]")
        yield before + start + lines.replace(b"\n", b"\n    ")
        before, start, mark = b"", b",", b"\n    ]"
    yield before + mark + after


def _indented(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _without_changes(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values, with an empty list of changes."""
    moved = replace(comparison.moved_cases, changes=())
    document: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(comparison, moved_cases=moved))
    document["moved_cases"]["changes"] = []
    return document


def _changes(moved: MovedCases, cases: int) -> Iterator[CaseChange]:
    """Yield the changes, the first with their texts."""
    shown = moved.first(cases)
    for change in moved.each_change():
        case = next(shown, None)
        yield change if case is None else _with_texts(change, case)


def _with_texts(change: CaseChange, moved: MovedCase) -> ChangeWithTexts:
    base, head = moved.base, moved.head
    calls = tool_calls(base.attempt.trace, head.attempt.trace)
    return ChangeWithTexts(
        **msgspec.structs.asdict(change),
        repeat=head.attempt.repeat,
        input=_cut(moved.case.input_shown if moved.case.turns else moved.case.input),
        references=[_cut(text) for text in moved.case.references],
        base=_side(base),
        head=_side(head),
        reasons=[
            Reasons(metric=name, base=_cut(ours), head=_cut(theirs))
            for name, ours, theirs in judged_differently(base.evaluation, head.evaluation)
        ],
        tool_calls=UNSET if calls is None else calls[:CALLS_LISTED],
        tool_calls_left_out=UNSET if calls is None else max(0, len(calls) - CALLS_LISTED),
    )


def _side(side: ScoredAttempt) -> Side:
    world = side.attempt.world
    return Side(
        output=_cut(side.attempt.shown),
        passed=side.evaluation.passed,
        why=side.why,
        error=side.attempt.error,
        changes=UNSET if world is None else [change.shown for change in world.changes],
    )


def _cut(value: Any) -> str | None:
    """The beginning of a text, with the number of characters that are left out."""
    if value is None:
        return None
    text = value if isinstance(value, str) else as_json(value, indent=None)
    left_out = len(text) - TEXT_CHARS
    return text if left_out <= 0 else f"{text[:TEXT_CHARS]}… ({left_out:,} more characters)"
