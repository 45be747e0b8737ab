"""What the agents of a session of Claude Code tell each other: starts, answers, and SendMessage."""

import re
from typing import Any

from trivium.traces.readers.claude_code.agents import IN_BACKGROUND, STARTS_AGENTS, Agents, Run
from trivium.traces.readers.claude_code.events import Result, Use, as_value, decoded
from trivium.traces.readers.fields import dict_, text
from trivium.traces.trace import Message

_TYPES = {"message": "data_transfer", "broadcast": "status_update"}
"""Types of SendMessage as Trivium's (spec: metrics, T3.8); any other steers: ``coordination``."""

_EVERYONE = frozenset({"*", "all", "team"})
_HEARD = re.compile(r'<teammate-message\s+teammate_id="([^"<>]{1,200})"[^<>]{0,500}>([^<]{0,100000})')


class Messages:
    """The messages of a session, in the order of its events."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._all: list[Message] = []
        self._callers: dict[str, Run] = {}

    def all(self) -> list[Message]:
        """Every message."""
        return self._all

    def called(self, use: Use, run: Run, result: Result | None, time: float | None) -> None:
        """A call that starts an agent, or sends a message that arrived."""
        if use.name in STARTS_AGENTS:
            self._started(self._agents.runs[use.id], run, result, time)
        elif use.name == "SendMessage":
            refused = result is not None and (result.ok is False or result.told.get("success") is False)
            if not refused:
                self._sent(dict_(use.input), run, time)

    def _started(self, started: Run, run: Run, result: Result | None, time: float | None) -> None:
        refused = result is not None and result.ok is False
        if refused and not started.seen:
            return
        self._callers[started.id] = run
        self._add(run.name, started.name, "task_request", time, started.input)
        if result is not None and result.ok and text(result.told, "status") not in IN_BACKGROUND:
            self._add(started.name, run.name, "result_delivery", result.time, as_value(result.content))

    def _sent(self, given: dict[str, Any], run: Run, time: float | None) -> None:
        content = decoded(given.get("content", given.get("message")))
        kind = text(given, "type") or text(dict_(content), "type") or "message"
        receiver = text(given, "recipient", "to")
        everyone = receiver in _EVERYONE or (receiver is None and kind == "broadcast")
        names = [each.name for each in self._agents.others()] if everyone else [receiver]
        if everyone and kind == "message":
            kind = "broadcast"
        for name in dict.fromkeys(names):
            if name is not None and name != run.name:
                self._add(run.name, name, _TYPES.get(kind, "coordination"), time, content)

    def heard(self, said: str, run: Run, time: float | None) -> None:
        """What teammates sent, as the one they sent it to hears it."""
        if "<teammate-message" not in said:
            return
        for sender, body in _HEARD.findall(said):
            content = decoded(body.strip())
            kind = "coordination" if isinstance(content, dict) and "type" in content else "data_transfer"
            if sender != run.name:
                self._add(sender, run.name, kind, time, content)

    def ended(self, run: Run, summary: str | None) -> None:
        """An agent in the background has ended."""
        caller = self._callers.get(run.id)
        if caller is not None and run.ok:
            self._add(run.name, caller.name, "result_delivery", run.end, summary)

    def _add(self, sender: str, receiver: str, type: str, time: float | None, content: Any) -> None:  # noqa: A002
        self._all.append(Message(sender=sender, receiver=receiver, type=type, time=time, content=content))
