"""LangSmith: run trees, those of LangChain's and LangGraph's tracers and of ``@traceable``.

Runs come nested (``child_runs``), as a flat list, one a line, or as an answer of the service; in any order,
from several traces, and some told twice (when posted and when patched). What is missing of a run's parent,
trace and start is in its ``dotted_order``.
"""

from trivium.traces.readers.langsmith.trees import read, sniff

__all__ = ["read", "sniff"]
