"""The JSON document of a comparison: the record, with the texts of the first moved cases."""

from typing import Any

import msgspec

from trivium.reports.escape import as_json
from trivium.reports.moved_cases.shown import judged_differently, tool_calls
from trivium.runs.comparing.comparison import Comparison
from trivium.runs.comparing.moved_cases import MovedCase, ScoredAttempt

CASES_WITH_TEXTS = 100
TEXT_CHARS = 2_000
CALLS_LISTED = 100


def comparison_document(comparison: Comparison, *, cases: int = CASES_WITH_TEXTS) -> dict[str, Any]:
    """The comparison as plain values.

    Args:
        comparison: The comparison.
        cases: Largest number of moved cases whose texts are included; the values of all are.

    Raises:
        StoreError: If the cases cannot be read.
    """
    document: dict[str, Any] = msgspec.to_builtins(comparison)
    changes = document["moved_cases"]["changes"]
    for change, moved in zip(changes, comparison.moved_cases.first(cases), strict=False):
        change.update(_texts(moved))
    return document


def _texts(moved: MovedCase) -> dict[str, Any]:
    base, head = moved.base, moved.head
    calls = tool_calls(base.attempt.trace, head.attempt.trace)
    texts: dict[str, Any] = {
        "repeat": head.attempt.repeat,
        "input": _cut(moved.case.input),
        "references": [_cut(text) for text in moved.case.references],
        "base": _side(base),
        "head": _side(head),
        "reasons": [
            {"metric": name, "base": _cut(ours), "head": _cut(theirs)}
            for name, ours, theirs in judged_differently(base.evaluation, head.evaluation)
        ],
    }
    if calls is not None:
        texts["tool_calls"] = [msgspec.to_builtins(call) for call in calls[:CALLS_LISTED]]
        texts["tool_calls_left_out"] = max(0, len(calls) - CALLS_LISTED)
    return texts


def _side(side: ScoredAttempt) -> dict[str, Any]:
    return {
        "output": _cut(side.attempt.output),
        "passed": side.evaluation.passed,
        "why": side.why,
        "error": side.attempt.error,
    }


def _cut(value: Any) -> str | None:
    """The beginning of a text, with the number of characters that are left out."""
    if value is None:
        return None
    text = value if isinstance(value, str) else as_json(value, indent=None)
    left_out = len(text) - TEXT_CHARS
    return text if left_out <= 0 else f"{text[:TEXT_CHARS]}… ({left_out:,} more characters)"
