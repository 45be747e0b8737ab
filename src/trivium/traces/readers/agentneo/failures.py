"""Failures: what raised, by the rows among the errors and the lines printed about them.

Raising leaves a row with empty ids and the name at the front of its message; the log has neither ids nor
agents. But every failure was also printed, and of what is printed the agent is kept.
"""

from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

from trivium.traces.readers.fields import moment, text
from trivium.traces.readers.records import Record


class Failure(NamedTuple):
    """One row of the errors.

    Attributes:
        kind: agent, tool or llm.
        name: Of what raised.
        message: What it raised.
        time: When.
        agent: Id of the agent that raised, or that called what raised.
        call: Id of the call, in versions that keep it.
    """

    kind: str
    name: str
    message: str
    time: float | None
    agent: str | None
    call: str | None


class Raised:
    """The agents that raised, to be found by their rows: by id, else by name where the row has no end."""

    def __init__(self, failures: list[Failure]) -> None:
        self._left = dict(enumerate(failure for failure in failures if failure.kind == "agent"))
        self._by_id: dict[str, list[int]] = defaultdict(list)
        self._by_name: dict[str, list[int]] = defaultdict(list)
        for place, failure in reversed(self._left.items()):
            if failure.agent is not None:
                self._by_id[failure.agent].append(place)
            else:
                self._by_name[failure.name].append(place)

    def take(self, id_: str | None, name: str | None, start: float | None, *, ended: bool) -> Failure | None:
        """The failure of an agent's row, which no other row is then given."""
        places = self._by_id.get(id_ or "")
        if not places and not ended:
            places = self._by_name.get(name or "")
            time = self._left[places[-1]].time if places else None
            if time is not None and start is not None and time < start:
                return None
        return self._left.pop(places.pop()) if places else None

    def left(self) -> list[Failure]:
        """Those that no row was found for."""
        return list(self._left.values())


def failures_of(errors: list[Record], printed: list[Record], names: set[str]) -> list[Failure]:
    """The failures of a trace, in the order of their rows.

    Args:
        errors: Rows of the errors.
        printed: What was printed, with the agents that printed it.
        names: Names of tools and models, which may hold a colon as the messages do.
    """
    agents = _printed_by(printed)
    failures = []
    for row in errors:
        kind = (text(row, "error_type", "type") or "").lower()
        name, message = _name_and_message(row, names)
        time = moment(row.get("timestamp"))
        agent = text(row, "agent_id") or _nearest(agents.get((kind, name, message), []), time)
        call = text(row, f"{kind}_call_id") if kind in {"tool", "llm"} else None
        failures.append(Failure(kind, name, message, time, agent, call))
    return failures


def _name_and_message(row: Record, names: set[str]) -> tuple[str, str]:
    message = text(row, "error_message", "message") or ""
    name = text(row, "name")
    if name is not None:
        return name, message
    before = [message[:place] for place in _colons(message)]
    known = [part for part in before if part in names]
    name = known[-1] if known else before[0] if before else "unknown"
    return name, message[len(name) + 2 :] if before else message


def _colons(message: str) -> list[int]:
    """Places of the first few ": " in a message."""
    places: list[int] = []
    place = message.find(": ")
    while place >= 0 and len(places) < 8:
        places.append(place)
        place = message.find(": ", place + 1)
    return places


_Printed = dict[tuple[str, str, str], list[tuple[float, str]]]


def _printed_by(rows: list[Record]) -> _Printed:
    """Times and agents of the printed lines "Error in KIND 'NAME': MESSAGE", by those."""
    printed: _Printed = defaultdict(list)
    for row in rows:
        content, agent = text(row, "content") or "", text(row, "agent_id")
        rest = content.removeprefix("Error in ")
        kind, quote, rest = rest.partition(" '")
        name, colon, message = rest.partition("': ")
        if agent is not None and content.startswith("Error in ") and quote and colon:
            printed[kind, name, message].append((moment(row.get("timestamp")) or 0.0, agent))
    for lines in printed.values():
        lines.sort()
    return printed


def _nearest(lines: list[tuple[float, str]], time: float | None) -> str | None:
    """The agent of the first line printed at or after a time, or of the last one."""
    if not lines:
        return None
    place = bisect_left(lines, (time or 0.0, ""))
    return lines[min(place, len(lines) - 1)][1]
