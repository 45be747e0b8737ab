"""AgentNeo: its SQLite database, its tracer's JSON log, and the JSON of its dashboard and evaluations.

Times are naive local ones: differences hold, the date is taken as UTC. Ids are keys within their table only,
and what was nested is not stored: an agent's run lies in the shortest other one that encloses it in time. A
call that raised left a row among the errors and nothing else.
"""

from trivium.traces.readers.agentneo.database import opens, read_file
from trivium.traces.readers.agentneo.json_log import read_traces, sniff

__all__ = ["opens", "read_file", "read_traces", "sniff"]
