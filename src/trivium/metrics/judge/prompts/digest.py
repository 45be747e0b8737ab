"""Digest: a trace in a few bounded lines, for a judge (spec: metrics, T2.3)."""

from collections import Counter
from typing import Any

import msgspec

from trivium.suites.door import clean
from trivium.traces.trace import Message, Span, Trace

STEPS = 60
"""Steps that are told; of a longer trace the first and the last halves of these."""
VALUE_CHARS = 160

_SAID = ("text", "thinking", "reasoning")
"""Parts of a message that are words."""


def digest(trace: Trace) -> str:
    """What an agent did, bounded however long the trace is.

    Counts first, then the steps in order: who, which tool, what went in and came out (cut), what failed, and
    what a model said before it called (its answers are outputs, not steps).
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
    if len(steps) > STEPS:
        left_out = len(steps) - STEPS
        half = STEPS // 2
        steps = [*steps[:half], f"… {left_out} steps left out …", *steps[-half:]]
    return "\n".join([*head, "steps:", *steps]) if steps else "\n".join(head)


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
    for message in messages[:STEPS]:
        if not isinstance(message, dict):
            continue
        parts = message.get("parts")
        if message.get("tool_calls"):
            said.append(message.get("content"))
        elif isinstance(parts, list):
            known = [part for part in parts[:STEPS] if isinstance(part, dict)]
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
