"""Metrics of interactions between agents: communication, coordination, centrality and task balance."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, sqrt
from typing import Self

from trivium.metrics.graph.matching import counted_calls, once
from trivium.metrics.graph.measures import Edge, NamedGraph
from trivium.metrics.graph.tool_calls import ToolMetric
from trivium.metrics.metric import RECORDED_BY, Score, Skip, TraceMetric
from trivium.metrics.registry import metric
from trivium.suites.case import Case
from trivium.suites.settings import MessageSettings, Settings
from trivium.traces.trace import Trace

DEFAULT_MESSAGES = MessageSettings()


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

    def share_of_coordination(self, types: Mapping[str, int]) -> float:
        """Coordination messages / all messages, by the number of messages of each type."""
        return counted(types, self.messages.coordination) / sum(types.values())


def counted(types: Mapping[str, int], of: Collection[str]) -> int:
    """Return the number of messages of some types."""
    return sum([count for type_, count in types.items() if type_ in of])


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
        types = message_types(trace)
        if not types:
            raise Skip("the trace has no messages between agents")
        share = self.share_of_coordination(types)
        coordination = counted(types, self.messages.coordination)
        productive = counted(types, self.messages.productive)
        return self.ok(
            1.0 - share,
            raw=share,
            method=recorded_by(trace),
            detail={
                "coordination_to_productive": coordination / productive if productive else None,
                "coordination": coordination,
                "productive": productive,
                "messages": sum(types.values()),
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
        found = interaction_graph(trace)
        if len(found.nodes) < 2:
            raise Skip("the trace has fewer than two agents")
        if not found.edges:
            raise Skip("the trace has no messages between agents")
        share = self.share_of_coordination(message_types(trace))
        detail: dict[str, object] = {"communication_overhead": share}
        if case.expect.workflow is not None:
            handed_on = [each for each in trace.agent_messages if each.type in HANDING_ON]
            pairs = tuple(dict.fromkeys((each.sender, each.receiver) for each in handed_on))
            efficiency = _follows(pairs, case.expect.workflow, detail)
            method = "workflow"
        else:
            efficiency = found.measures.global_efficiency
            method = "global_efficiency"
            if found.measures.sources is not None:
                detail |= {"estimated": True, "sources": len(found.measures.sources)}
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
        agents, graph = trace.agents, interaction_graph(trace).measures
        if not agents:
            raise Skip("the trace names no agent")
        between, close, degrees = graph.betweenness, graph.closeness, graph.degree
        means = [sum(three) / 3 for three in zip(between.values, close, degrees, strict=True)]
        raw = max(means)
        if not all(map(isfinite, between.values)):
            raise ValueError("there are more shortest paths than a float can count")
        top = means.index(raw)
        rows = zip(agents, between.values, close, degrees, means, strict=True)
        detail: dict[str, object] = {
            "agent": agents[top],
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


@once
def interaction_graph(trace: Trace) -> NamedGraph:
    """Return the interaction graph.

    Definition: docs/definitions/traces.md#interaction-graph.

    Nodes are agents. An edge goes from sender to receiver, with the number of messages. People, such as the
    user of a chat, are not nodes.
    """
    types: dict[tuple[str, str], dict[str, int]] = {}
    sent = Counter((message.sender, message.receiver, message.type) for message in trace.agent_messages)
    for (sender, receiver, type_), number in sent.items():
        types.setdefault((sender, receiver), {})[type_] = number
    edges = {pair: Edge(sum(counts.values()), counts) for pair, counts in types.items()}
    return NamedGraph(tuple(trace.agents), edges)


@once
def message_types(trace: Trace) -> dict[str, int]:
    """Return the number of messages between agents by type."""
    return dict(Counter(message.type for message in trace.agent_messages))


def recorded_by(trace: Trace) -> str | None:
    """The method of a score that depends on what recorded the trace; None if that is unknown."""
    return f"{RECORDED_BY}{' and '.join(trace.recorders)}" if trace.recorders else None
