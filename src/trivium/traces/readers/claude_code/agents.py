"""Assigns the events of a Claude Code session to agents, and collects the messages between them."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trivium.traces.readers.claude_code.events import (
    ToolResult,
    ToolUse,
    as_value,
    decoded,
    plain_text,
    tool_results,
    tool_uses,
)
from trivium.traces.readers.json_input import text
from trivium.traces.trace import Message, Span
from trivium.values import dict_

LEAD = "main"
"""Name of the lead agent, which no call started; its run is the root."""

STARTS_AGENTS = frozenset({"Agent", "Task"})
"""The tools that start an agent."""

IN_BACKGROUND = frozenset({"teammate_spawned", "async_launched", "remote_launched"})
"""Statuses of the results of calls whose agent keeps working in the background."""


@dataclass(kw_only=True)
class Run:
    """One agent's run while its events are collected."""

    id: str
    name: str
    call: str | None = None
    input: Any = None
    output: Any = None
    ok: bool | None = None
    start: float | None = None
    end: float | None = None
    attributes: dict[str, Any] | None = None
    has_started: bool = False
    """Whether any event shows that it started."""

    def span(self) -> Span:
        """The run as a span below the call that started it."""
        return Span(
            id=self.id,
            kind="agent",
            name=self.name,
            agent=self.name,
            parent=self.call,
            start=self.start,
            end=self.end,
            ok=self.ok,
            input=self.input,
            output=self.output,
            attributes=self.attributes or {},
        )


class SessionAgents:
    """The agents of a session; assigns each event to a run.

    An event of a stream names the call that started its agent (``parent_tool_use_id``). An event of a
    transcript names its agent (``agentId``), as does the result of the call, or belongs to a side chain whose
    first message is the prompt of the call.
    """

    def __init__(self, events: Sequence[dict[str, Any]]) -> None:
        chains = {text(event, "agentId") for event in events if event.get("isSidechain") is True}
        turns = [event for event in events if event.get("type") in {"user", "assistant"}]
        # In a transcript of one sub-agent only, its run is the root.
        alone = bool(turns) and len(chains) == 1 and all(event.get("isSidechain") is True for event in turns)
        self._own = next(iter(chains)) if alone else None
        self._alone = alone
        name = next((text(event, "agentName", "agentType") for event in turns), None) if alone else None
        self.lead = Run(id=LEAD, name=name or (f"agent-{self._own}" if self._own else LEAD), has_started=True)
        self.runs: dict[str, Run] = {LEAD: self.lead}
        self._by_agent: dict[str, str] = {}
        self._prompts: dict[str, deque[str]] = {}
        self._by_uuid: dict[str, str] = {}
        self._active_calls: set[str] = set()
        for event in events:
            self._index_event(event)
        for call in self._active_calls & self.runs.keys():
            self.runs[call].has_started = True

    def _index_event(self, event: dict[str, Any]) -> None:
        call = text(event, "parent_tool_use_id")
        if call is not None:
            self._active_calls.add(call)
        if event.get("type") == "assistant":
            for use in tool_uses(event):
                if use.name in STARTS_AGENTS:
                    self._start(use)
        elif event.get("type") == "user":
            for result in tool_results(event):
                agent = text(result.details, "agentId", "agent_id")
                if agent is not None and result.id in self.runs:
                    self._by_agent.setdefault(agent, result.id)
                    self._active_calls.add(result.id)
        elif text(event, "subtype") == "task_started":
            task, call = text(event, "task_id", "agent_id"), text(event, "tool_use_id")
            if task is not None and call is not None:
                self._by_agent.setdefault(task, call)
                self._active_calls.add(call)

    def _start(self, use: ToolUse) -> None:
        given = dict_(use.input)
        name = text(given, "name", "subagent_type", "agent_type") or "agent"
        prompt = given.get("prompt")
        self.runs.setdefault(use.id, Run(id=f"agent:{use.id}", name=name, call=use.id, input=prompt))
        if isinstance(prompt, str):
            self._prompts.setdefault(prompt.strip(), deque()).append(use.id)

    def run_of(self, event: dict[str, Any]) -> Run:
        """The run of an event; a run without a call is created, with a missing parent."""
        key = self._key(event)
        uuid = text(event, "uuid")
        if uuid is not None:
            self._by_uuid[uuid] = key
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = Run(id=f"agent:{key}", name=f"agent-{key}", call=key)
        run.has_started = True
        return run

    def run_named(self, agent: str) -> Run | None:
        """The run with the given agent id or call id, or None."""
        return self.runs.get(self._by_agent.get(agent, agent))

    def sub_agents(self) -> Iterable[Run]:
        """The runs that calls started; those that never began are left out."""
        return [run for run in self.runs.values() if run is not self.lead and run.has_started]

    def _key(self, event: dict[str, Any]) -> str:
        call = text(event, "parent_tool_use_id")
        if call is not None:
            return call
        if event.get("isSidechain") is not True or self._alone:
            return LEAD
        agent = text(event, "agentId")
        if agent is not None and agent in self._by_agent:
            return self._by_agent[agent]
        before = text(event, "parentUuid")
        if before is not None and before in self._by_uuid and self._by_uuid[before] != LEAD:
            return self._by_uuid[before]
        waiting = self._prompts.get(plain_text(event).strip()) if event.get("type") == "user" else None
        key = waiting.popleft() if waiting else (agent or "sidechain")
        if agent is not None:
            self._by_agent[agent] = key
        return key


_TYPES = {"message": "data_transfer", "broadcast": "status_update"}
"""Message type of each type of SendMessage; other types are ``coordination``.

Definition: docs/definitions/traces.md#messages.
"""

_EVERYONE = frozenset({"*", "all", "team"})
_TEAMMATE_MESSAGE = re.compile(
    r'<teammate-message\s+teammate_id="([^"<>]{1,200})"[^<>]{0,500}>([^<]{0,100000})'
)


class Messages:
    """The messages of a session, in the order of its events."""

    def __init__(self, agents: SessionAgents) -> None:
        self._agents = agents
        self._all: list[Message] = []
        self._callers: dict[str, Run] = {}

    def all(self) -> list[Message]:
        """Every message."""
        return self._all

    def called(self, use: ToolUse, run: Run, result: ToolResult | None, time: float | None) -> None:
        """Add the messages of a call that starts an agent or sends a message."""
        if use.name in STARTS_AGENTS:
            self._started(self._agents.runs[use.id], run, result, time)
        elif use.name == "SendMessage":
            failed = result is not None and (result.ok is False or result.details.get("success") is False)
            if not failed:
                self._sent(dict_(use.input), run, time)

    def _started(self, started: Run, run: Run, result: ToolResult | None, time: float | None) -> None:
        failed = result is not None and result.ok is False
        if failed and not started.has_started:
            return
        self._callers[started.id] = run
        self._add(run.name, started.name, "task_request", time, started.input)
        if result is not None and result.ok and text(result.details, "status") not in IN_BACKGROUND:
            self._add(started.name, run.name, "result_delivery", result.time, as_value(result.content))

    def _sent(self, given: dict[str, Any], run: Run, time: float | None) -> None:
        content = decoded(given.get("content", given.get("message")))
        kind = text(given, "type") or text(dict_(content), "type") or "message"
        receiver = text(given, "recipient", "to")
        everyone = receiver in _EVERYONE or (receiver is None and kind == "broadcast")
        names = [each.name for each in self._agents.sub_agents()] if everyone else [receiver]
        if everyone and kind == "message":
            kind = "broadcast"
        for name in dict.fromkeys(names):
            if name is not None and name != run.name:
                self._add(run.name, name, _TYPES.get(kind, "coordination"), time, content)

    def received(self, text: str, run: Run, time: float | None) -> None:
        """Add the messages of teammates that an event holds, with its agent as their receiver."""
        if "<teammate-message" not in text:
            return
        for sender, body in _TEAMMATE_MESSAGE.findall(text):
            content = decoded(body.strip())
            kind = "coordination" if isinstance(content, dict) and "type" in content else "data_transfer"
            if sender != run.name:
                self._add(sender, run.name, kind, time, content)

    def ended(self, run: Run, summary: str | None) -> None:
        """Add the result of an agent that ended in the background."""
        caller = self._callers.get(run.id)
        if caller is not None and run.ok:
            self._add(run.name, caller.name, "result_delivery", run.end, summary)

    def _add(self, sender: str, receiver: str, type: str, time: float | None, content: Any) -> None:  # noqa: A002
        self._all.append(Message(sender=sender, receiver=receiver, type=type, time=time, content=content))
