"""Reads AgentNeo: its SQLite database, its tracer's JSON log, the JSON of its dashboard and evaluations.

Times are local without a zone: differences are right, and dates are read as UTC. Ids are unique within their
table only. Nesting is not stored: an agent's run is placed below the shortest other run that encloses it in
time. A call that raised is stored as a row of the errors table only.
"""

from trivium.traces.readers.agentneo.database import opens, read_file
from trivium.traces.readers.agentneo.json_log import read_traces, sniff

__all__ = ["opens", "read_file", "read_traces", "sniff"]
