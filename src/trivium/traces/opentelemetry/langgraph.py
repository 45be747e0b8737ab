"""LangGraph under OpenTelemetry: its metadata tells which spans are agents (OpenInference, Traceloop)."""

from typing import Any

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import parsed
from trivium.traces.opentelemetry.kinds import Reading
from trivium.traces.opentelemetry.langchain import Call, answered, asked_by
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.readers.langsmith.graphs import GraphRun, is_handoff

_PREFIX = "langgraph_"


def graph_runs(spans: list[RecordedSpan], readings: list[Reading]) -> list[GraphRun]:
    """What LangGraph says of each span; empty where it says nothing of any.

    Args:
        spans: Of one trace, by start; changed, for tools have messages where others have results.
        readings: What each is by itself; changed, for OpenInference takes whatever has "agent" in its name
            for one, and tools that hand over are no calls.
    """
    metadata = [_metadata(span) for span in spans]
    if not any(key.startswith(_PREFIX) for each in metadata for key in each):
        return []
    asked: dict[str, Call] = {}
    runs = []
    for index, (span, what, told) in enumerate(zip(spans, readings, metadata, strict=True)):
        calls: dict[str, Call] = {}
        answers = None
        if what.kind == "agent" and (told or not what.name):
            readings[index] = Reading("other", span.name)
        elif what.kind == "llm":
            calls = asked_by(span)
            asked |= calls
        elif what.kind == "tool":
            spans[index], answers = answered(span, asked, what.name)
            if is_handoff(what.name, told):
                readings[index] = msgspec.structs.replace(what, handoff=True)
        runs.append(GraphRun.of(told, asked=calls, call=answers))
    return runs


def _metadata(span: RecordedSpan) -> dict[str, Any]:
    attributes = span.attributes
    path = attributes.get(wanted.PLACE)
    if isinstance(path, str):
        node = path.rpartition("|")[2].partition(":")[0]
        step = attributes.get(wanted.STEP)
        return {"langgraph_checkpoint_ns": path, "langgraph_node": node, "langgraph_step": step}
    metadata = parsed(attributes.get(wanted.METADATA))
    return metadata if isinstance(metadata, dict) else {}
