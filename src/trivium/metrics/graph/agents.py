"""Metrics of interactions between agents: communication, coordination, centrality and task balance."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isfinite, sqrt
from typing import Self

import msgspec

from trivium.metrics.graph.matching import counted_calls, once
from trivium.metrics.graph.measures import (
    Edge,
    IndexGraph,
    NamedGraph,
)
from trivium.metrics.graph.tool_calls import ToolMetric
from trivium.metrics.metric import RECORDED_BY, Score, Skip, TraceMetric
from trivium.metrics.registry import metric
from trivium.suites.case import Case
from trivium.suites.settings import MessageSettings, Settings
from trivium.traces.trace import Trace

DEFAULT_MESSAGES = MessageSettings()


class Overhead(msgspec.Struct, frozen=True):
    """Number of messages by purpose; other types count only in the total."""

    coordination: int
    productive: int
    total: int

    @property
    def share(self) -> float:
        """Coordination messages / all messages."""
        return self.coordination / self.total


def overhead(types: Mapping[str, int], messages: MessageSettings) -> Overhead:
    """Count messages by purpose.

    Args:
        types: Number of messages by type.
        messages: Which types are coordination and which are productive work.
    """
    return Overhead(
        sum([count for type_, count in types.items() if type_ in messages.coordination]),
        sum([count for type_, count in types.items() if type_ in messages.productive]),
        sum(types.values()),
    )


@dataclass(frozen=True, kw_only=True)
class MessageMetric(TraceMetric):
    """A metric of the messages between agents.

    Attributes:
        messages: Which types are coordination and which are productive work.
    """

    messages: MessageSettings = DEFAULT_MESSAGES

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric with the suite's message types."""
        return cls(messages=settings.messages)


@metric("communication_overhead")
class CommunicationOverhead(MessageMetric):
    """1 − coordination messages / all messages between agents, in [0, 1]; ``raw`` is the share itself.

    Definition: docs/definitions/traces.md#communication-overhead.

    Skipped without messages.
    """

    unit = "of messages"
    better = "lower"

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace.

        ``detail`` has the counts by type and ``coordination_to_productive``, which is None without productive
        messages.
        """
        types = interactions(trace).types
        if not types:
            raise Skip("the trace has no messages between agents")
        found = overhead(types, self.messages)
        ratio = found.coordination / found.productive if found.productive else None
        return self.ok(
            1.0 - found.share,
            raw=found.share,
            method=recorded_by(trace),
            detail={
                "coordination_to_productive": ratio,
                "coordination": found.coordination,
                "productive": found.productive,
                "messages": found.total,
                "types": dict(types),
            },
        )


Pair = tuple[str, str]


@metric("coordination_quality", version="2")
class CoordinationQuality(MessageMetric):
    """(1 − share of coordination messages) × efficiency, in [0, 1].

    Definition: docs/definitions/traces.md#coordination-quality.

    With ``expect.workflow``, efficiency is the F1 of the hand-offs between agents against the workflow's
    consecutive pairs; answers do not count, so that a run that follows the workflow scores 1. Otherwise it is
    the global efficiency of the undirected interaction graph (Latora & Marchiori 2001), which is 1 for a
    complete graph: it measures how easily messages spread, not whether they were needed. Skipped for a single
    agent, or without messages.

    Frameworks record the same work differently: a hand-off in one is a request and an answer in another.
    ``method`` therefore names what recorded the trace, and traces of different recorders are not compared.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace; ``detail`` has both factors, and missing and extra hand-offs."""
        found = interactions(trace)
        if len(found.agents) < 2:
            raise Skip("the trace has fewer than two agents")
        if not found.types:
            raise Skip("the trace has no messages between agents")
        share = overhead(found.types, self.messages).share
        detail: dict[str, object] = {"communication_overhead": share}
        if case.expect.workflow is not None:
            efficiency = _follows(found.handed_on, case.expect.workflow, detail)
            method = "workflow"
        else:
            efficiency = found.graph.global_efficiency
            method = "global_efficiency"
            if found.graph.sources is not None:
                detail |= {"estimated": True, "sources": len(found.graph.sources)}
        detail["efficiency"] = efficiency
        recorded = recorded_by(trace)
        method = f"{method}, {recorded}" if recorded else method
        return self.ok((1.0 - share) * efficiency, method=method, detail=detail)


def _follows(observed: Sequence[Pair], workflow: Sequence[str], detail: dict[str, object]) -> float:
    """F1 of the observed pairs against the workflow's; 1 if both are empty. Extends ``detail``."""
    wanted = dict.fromkeys(pairwise(workflow))
    missing = [pair for pair in wanted if pair not in observed]
    extra = [pair for pair in observed if pair not in wanted]
    detail |= {"missing_pairs": missing, "extra_pairs": extra}
    both = len(wanted) + len(observed)
    return 2 * (len(wanted) - len(missing)) / both if both else 1.0


@metric("centrality")
class Centrality(TraceMetric):
    """Highest (betweenness + closeness + degree) / 3 of an agent in the interaction graph.

    Definition: docs/definitions/traces.md#centrality.

    The three are defined as in NetworkX on a DiGraph. ``raw`` is the maximum, up to 4/3 because degree counts
    both directions; the score is clamped to 1. Skipped if the trace names no agent.
    """

    unit = ""
    better = None

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace.

        ``detail`` has the most central agent, and every agent's three measures with their mean. Above 2,000
        agents betweenness is estimated (above 5,000 closeness, too). ``estimated`` is then true, ``sources``
        is the number of sampled sources, ``standard_error`` is that of the most central agent's betweenness,
        and ``largest_standard_error`` is the largest of all agents.
        """
        found = interactions(trace)
        if not found.agents:
            raise Skip("the trace names no agent")
        between, close, degrees = found.graph.betweenness, found.graph.closeness, found.graph.degree
        means = [sum(three) / 3 for three in zip(between.values, close, degrees, strict=True)]
        raw = max(means)
        if not all(map(isfinite, between.values)):
            raise ValueError("there are more shortest paths than a float can count")
        top = means.index(raw)
        rows = zip(found.agents, between.values, close, degrees, means, strict=True)
        detail: dict[str, object] = {
            "agent": found.agents[top],
            "agents": {
                agent: {"betweenness": b, "closeness": c, "degree": d, "mean": mean}
                for agent, b, c, d, mean in rows
            },
        }
        if between.standard_errors is not None:
            detail |= {
                "estimated": True,
                "sources": between.sources,
                "standard_error": between.standard_errors[top],
                "largest_standard_error": max(between.standard_errors),
            }
        return self.ok(min(1.0, raw), raw=raw, detail=detail)


def balance(tasks: Collection[int]) -> float:
    """Return max(0, 1 − standard deviation / mean), with the sample standard deviation (ddof 1).

    Args:
        tasks: Number of tasks of each agent.

    Returns:
        In [0, 1]; 1 for fewer than two agents, or without tasks.
    """
    total = sum(tasks)
    if len(tasks) < 2 or total == 0:
        return 1.0
    mean = total / len(tasks)
    deviation = sqrt(sum([(count - mean) ** 2 for count in tasks]) / (len(tasks) - 1))
    return max(0.0, 1.0 - deviation / mean)


@metric("task_balance")
class TaskBalance(ToolMetric):
    """How evenly tool calls and model requests are spread over the agents, in [0, 1].

    Definition: docs/definitions/traces.md#task-balance.

    Agents that only received messages count with 0 tasks. 1 for fewer than two agents, or without tasks.
    """

    better = None

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace; ``detail`` has the number of tasks of every agent, and of tasks without agent."""
        tasks = dict.fromkeys(trace.agents, 0)
        unassigned = 0
        done = [span.agent for span in trace.spans if span.kind == "llm"]
        done += [call.agent for call in counted_calls(trace, self.tools)]
        for agent in done:
            if agent is None:
                unassigned += 1
            else:
                tasks[agent] += 1
        detail = {"tasks": tasks, "unassigned": unassigned}
        return self.ok(balance(tasks.values()), detail=detail)


HANDING_ON = frozenset({"task_request", "handoff", "delegation", "data_transfer"})
"""Message types that hand work on; answers and status updates do not.

Definition: docs/definitions/traces.md#coordination-quality.
"""


def interaction_graph(trace: Trace) -> NamedGraph:
    """Return the interaction graph, for drawings and exports.

    Definition: docs/definitions/traces.md#interaction-graph.

    Nodes are agents. An edge goes from sender to receiver, with the number of messages. People, such as the
    user of a chat, are not nodes.
    """
    types: dict[tuple[str, str], Counter[str]] = {}
    for message in trace.agent_messages:
        types.setdefault((message.sender, message.receiver), Counter())[message.type] += 1
    edges = {pair: Edge(counts.total(), dict(counts)) for pair, counts in types.items()}
    return NamedGraph(tuple(trace.agents), edges)


class Interactions:
    """The messages between the agents of a trace.

    Attributes:
        agents: All agents; the nodes of the graph.
        pairs: Distinct (sender, receiver) pairs, in order of their first message.
        handed_on: The pairs that handed work on.
        types: Number of messages by type.
    """

    def __init__(self, trace: Trace) -> None:
        self.agents = trace.agents
        pairs: dict[tuple[str, str], None] = {}
        types: dict[str, int] = {}
        handed_on: dict[tuple[str, str], None] = {}
        for message in trace.agent_messages:
            pairs[message.sender, message.receiver] = None
            if message.type in HANDING_ON:
                handed_on[message.sender, message.receiver] = None
            types[message.type] = types.get(message.type, 0) + 1
        self.pairs = tuple(pairs)
        self.handed_on = tuple(handed_on)
        self.types = types

    @cached_property
    def graph(self) -> IndexGraph:
        """The interaction graph; its nodes are indices into ``agents``."""
        return IndexGraph.of(self.agents, self.pairs)


def recorded_by(trace: Trace) -> str | None:
    """The method of a score that depends on what recorded the trace; None if that is unknown."""
    return f"{RECORDED_BY}{' and '.join(trace.recorders)}" if trace.recorders else None


interactions = once(Interactions)
"""The interactions of a trace."""
