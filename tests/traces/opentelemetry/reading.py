"""Spans read, and what came of them."""

import json

from tests.traces.opentelemetry.spans import request, span
from trivium.traces.readers import read_trace


def read(*spans):
    return read_trace(request(*spans), "otlp")


def one(attrs, **rest):
    """One span, read."""
    (found,) = read(span("s", attrs, **rest)).spans
    return found


def seen(attrs, **rest):
    found = one(attrs, **rest)
    return found.kind, found.name, found.agent


def asked(trace):
    return [(m.sender, m.receiver, m.type) for m in trace.messages if m.type != "result_delivery"]


def node(id, path, step=None, kind="CHAIN", **rest):
    """A span of LangGraph."""
    inner = path.rpartition("|")[2].partition(":")[0]
    metadata = {"langgraph_checkpoint_ns": path, "langgraph_node": inner, "langgraph_step": step}
    return span(id, {"openinference.span.kind": kind, "metadata": json.dumps(metadata)}, **rest)
