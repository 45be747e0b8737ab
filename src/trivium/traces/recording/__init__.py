"""Records what an agent does: ``trivium.trace``.

``agent``, ``tool`` and ``llm`` make spans, as decorators of functions, coroutines and generators or around
a block (``with trivium.trace.tool("search") as span``); ``message`` records a message between agents;
``listen`` records agents that OpenTelemetry instruments. While Trivium evaluates an agent, the recorded spans
become the trace of the attempt; otherwise they are written to ``logs/traces`` (TRIVIUM_TRACES), which
``trivium traces show logs/traces`` reads.
"""

from trivium.traces.recording.collector import carried as carried
from trivium.traces.recording.collector import message as message
from trivium.traces.recording.collector import recorded as recorded
from trivium.traces.recording.config import configure as configure
from trivium.traces.recording.decorators import agent as agent
from trivium.traces.recording.decorators import current as current
from trivium.traces.recording.decorators import llm as llm
from trivium.traces.recording.decorators import span as span
from trivium.traces.recording.decorators import tool as tool
from trivium.traces.recording.otel_listener import listen as listen

__all__ = ["agent", "carried", "configure", "current", "listen", "llm", "message", "recorded", "span", "tool"]
