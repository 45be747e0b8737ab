"""Edges: what one attempt did, as edges of its graphs with their numbers, and the times of its steps."""

from collections import Counter
from itertools import pairwise
from statistics import median

from trivium.runs.comparing.graphs.change import EdgeKind
from trivium.traces.trace import Trace

Edge = tuple[EdgeKind, str | None, str]
Step = tuple[str, str]
"""``tool`` or ``agent``, and its name."""

START, END = "START", "END"


def edges_of(trace: Trace) -> Counter[Edge]:
    """How often an attempt has each edge.

    Messages and the order of tools are those of the interaction graph and the tool graph (spec: metrics,
    T3.1, T3.7).
    """
    calls = trace.tool_calls
    found: Counter[Edge] = Counter(
        ("message", message.sender, message.receiver) for message in trace.agent_messages
    )
    found.update(("call", call.agent, call.name) for call in calls)
    if calls:
        names = [f'"{call.name}"' if call.name in (START, END) else call.name for call in calls]
        found.update(("order", source, target) for source, target in pairwise([START, *names, END]))
    return found


def paces_of(trace: Trace) -> dict[Step, float]:
    """Median time in seconds of the calls of each tool and of the turns of each agent that ended."""
    times: dict[Step, list[float]] = {}
    for span in trace.spans:
        if span.start is None or span.end is None:
            continue
        if span.kind == "agent":
            times.setdefault(("agent", span.agent or span.name), []).append(span.end - span.start)
        elif span.kind == "tool" and not span.attributes.get("handoff"):
            times.setdefault(("tool", span.name), []).append(span.end - span.start)
    return {step: median(taken) for step, taken in times.items()}
