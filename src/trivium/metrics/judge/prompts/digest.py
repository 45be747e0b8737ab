"""Digest: a trace in a few bounded lines, for a judge (spec: metrics, T2.3)."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from trivium.metrics.judge.prompts.excerpts import Cut, Excerpt
from trivium.suites.door import clean
from trivium.traces.trace import Message, Span, Trace

VALUE_CHARS = 160
PARTS = 60
"""Messages, and parts of one, that are searched for a model's words."""

_SAID = ("text", "thinking", "reasoning")
"""Parts of a message that are words."""


def digest(trace: Trace, most: int) -> Excerpt:
    """What an agent did, bounded however long the trace is.

    Counts first, then the steps in order: who, which tool, what went in and came out (cut), what failed, and
    what a model said before it called (its answers are outputs, not steps). Of a trace of too many steps the
    first and the last are told.

    Args:
        trace: Of the attempt.
        most: Characters of its steps.
    """
    tools = Counter(span.name for span in trace.tool_calls)
    requests = sum(span.kind == "llm" for span in trace.spans)
    failed = sum(span.ok is False for span in trace.spans)
    steps = _steps(trace)
    head = [
        f"agents: {_names(trace.agents)}",
        f"tool calls: {len(trace.tool_calls)} ({_counts(tools)})",
        f"model requests: {requests}; failed steps: {failed}; messages: {len(trace.agent_messages)}",
    ]
    if not steps:
        return Excerpt("\n".join(head), None)
    first, last = _ends([len(step) + 1 for step in steps], most)
    cut = None
    if left_out := len(steps) - first - last:
        cut = Cut(first + last, len(steps), "steps")
        steps = [*steps[:first], f"[cut: {left_out:,} steps]", *steps[len(steps) - last :]]
    return Excerpt("\n".join([*head, "steps:", *steps]), cut)


def _ends(lengths: Sequence[int], most: int) -> tuple[int, int]:
    """How many lines from the beginning and how many from the end have no more characters together."""
    first = last = 0
    while first + last < len(lengths):
        most -= lengths[first] if first == last else lengths[-1 - last]
        if most < 0:
            break
        first, last = (first + 1, last) if first == last else (first, last + 1)
    return first, last


def _steps(trace: Trace) -> list[str]:
    """One line a thought, a tool call and a message, in the order of time where it is known."""
    told: list[tuple[float, str]] = []
    latest = float("-inf")
    for span in trace.spans:
        if span.kind == "llm" and (thought := _thought(span.output)):
            latest = span.start if span.start is not None else latest
            told.append((latest, f"{_cut(span.agent or 'agent')} thought: {_cut(thought)}"))
    latest = float("-inf")
    for span in trace.tool_calls:
        latest = span.start if span.start is not None else latest
        told.append((latest, _call(span)))
    latest = float("-inf")
    for message in trace.agent_messages:
        latest = message.time if message.time is not None else latest
        told.append((latest, _message(message)))
    told.sort(key=lambda step: step[0])
    return [f"{number}. {line}" for number, (_, line) in enumerate(told, 1)]


def _thought(output: Any) -> str:
    """What a model said beside calling tools, in messages as OpenTelemetry or OpenAI have them."""
    messages = output if isinstance(output, list) else [output]
    said: list[Any] = []
    for message in messages[:PARTS]:
        if not isinstance(message, dict):
            continue
        parts = message.get("parts")
        if message.get("tool_calls"):
            said.append(message.get("content"))
        elif isinstance(parts, list):
            known = [part for part in parts[:PARTS] if isinstance(part, dict)]
            if any(part.get("type") == "tool_call" for part in known):
                said += [part.get("content") for part in known if part.get("type") in _SAID]
    return " ".join(text for text in said if isinstance(text, str)).strip()


def _call(span: Span) -> str:
    end = {True: "", False: " FAILED", None: " never finished"}[span.ok]
    who = _cut(span.agent or "agent")
    return f"{who} called {_cut(span.name)}({_cut(span.input)}){end} → {_cut(span.output)}"


def _message(message: Message) -> str:
    return (
        f"{_cut(message.sender)} → {_cut(message.receiver)} [{_cut(message.type)}]: {_cut(message.content)}"
    )


def _cut(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else msgspec.json.encode(clean(value)[0]).decode()
    text = " ".join(text[: 4 * VALUE_CHARS].split())
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(_cut(name) for name in names[:20])
    return f"{shown}, …" if len(names) > 20 else shown or "-"


def _counts(counts: Counter[str]) -> str:
    shown = ", ".join(f"{_cut(name)} ×{count}" for name, count in counts.most_common(20))
    return f"{shown}, …" if len(counts) > 20 else shown or "none"
