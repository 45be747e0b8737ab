"""LangGraph: agents are the nodes of a graph; no span names them (conventions: OpenInference, Traceloop).

Each run of a node has a place of its own, the first part of ``langgraph_checkpoint_ns``, such as
``researcher:6f1c…``, and a step. A node below which a model is asked, or a graph runs, is an agent; where
one node alone asks a model, the graph itself is the agent and its nodes are its parts.
"""

from collections.abc import Sequence

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import parsed
from trivium.traces.opentelemetry.kinds import Reading
from trivium.traces.opentelemetry.recorded import RecordedSpan


class _Run(msgspec.Struct):
    """One run of a node of the outermost graph."""

    node: str
    first: int
    step: int | None = None
    asks: bool = False
    has_graph: bool = False


class NodeRun(msgspec.Struct, frozen=True):
    """A run of an agent that is a node: its name, its span, and the graph's step, if it is told."""

    agent: str
    span: int
    step: int | None


def read_nodes(spans: Sequence[RecordedSpan], readings: list[Reading]) -> list[NodeRun]:
    """Finds the runs of agents, in order, and changes the readings of their spans.

    Args:
        spans: Of one trace, by start.
        readings: What each is by itself; the span of each run becomes that of an agent, and the others
            below it become its.
    """
    places = [_place(span) for span in spans]
    runs: dict[str, _Run] = {}
    for index, place in enumerate(places):
        if place is None:
            continue
        path, step = place
        top, _, below = path.partition("|")
        run = runs.get(top)
        if run is None:
            run = runs[top] = _Run(top.partition(":")[0], index, step)
        run.asks |= readings[index].kind == "llm"
        run.has_graph |= bool(below)
    if not runs:
        return []
    agents = {top: run for top, run in runs.items() if run.asks or run.has_graph}
    one_agent = len({run.node for run in agents.values()}) == 1 and not any(
        run.has_graph for run in agents.values()
    )
    for index, place in enumerate(places):
        if readings[index].kind == "agent" and (place is not None or not readings[index].name):
            readings[index] = Reading("other", spans[index].name)
        if place is not None and not one_agent and place[0].partition("|")[0] in agents:
            readings[index] = msgspec.structs.replace(readings[index], agent=place[0].partition(":")[0])
    if one_agent:
        _whole_graph(spans, readings, min(run.first for run in runs.values()))
        return []
    for run in agents.values():
        readings[run.first] = Reading("agent", run.node)
    return [NodeRun(run.node, run.first, run.step) for run in agents.values()]


def _place(span: RecordedSpan) -> tuple[str, int | None] | None:
    """Path and step of the node that a span belongs to."""
    attributes = span.attributes
    path, step = attributes.get(wanted.PLACE), attributes.get(wanted.STEP)
    if path is None:
        metadata = parsed(attributes.get(wanted.METADATA))
        if not isinstance(metadata, dict):
            return None
        path, step = metadata.get("langgraph_checkpoint_ns"), metadata.get("langgraph_step")
    if not isinstance(path, str) or not path:
        return None
    return path, step if isinstance(step, int) and not isinstance(step, bool) else None


def _whole_graph(spans: Sequence[RecordedSpan], readings: list[Reading], node: int) -> None:
    """The span above the first node is the graph's, and the graph is the agent."""
    above = spans[node].parent
    for index, span in enumerate(spans):
        if span.id == above:
            readings[index] = Reading("agent", span.name)
            return
