"""Centrality: how much the work of the agents hangs on one of them (spec: metrics, T3.9)."""

from math import isfinite
from typing import Any

from trivium.metrics.graph.interaction_graph import interactions
from trivium.metrics.graph.measures import betweenness, closeness, degree
from trivium.metrics.metric import Skip, TraceMetric, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.trace import Trace


@metric("centrality")
class Centrality(TraceMetric):
    """Highest (betweenness + closeness + degree) / 3 of an agent in the interaction graph.

    Each of the three is as NetworkX defines it on the DiGraph. ``raw`` is the maximum, up to 4/3 since
    degree counts both directions; the score is clamped to 1. Skipped when the trace names no agent.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace.

        ``detail`` has the most central agent and every agent's three measures with their mean. Above
        2,000 agents betweenness is estimated (above 5,000 closeness too): ``estimated`` is then true,
        ``sources`` the number sampled, ``standard_error`` that of the most central agent's betweenness
        and ``largest_standard_error`` that of any.
        """
        found = interactions(trace)
        if not found.agents:
            raise Skip("the trace names no agent")
        between, close, degrees = betweenness(found.shape), closeness(found.shape), degree(found.shape)
        means = [sum(three) / 3 for three in zip(between.values, close, degrees, strict=True)]
        raw = max(means)
        if not all(map(isfinite, between.values)):
            raise ValueError("there are more shortest paths than a float can count")
        top = means.index(raw)
        rows = zip(found.agents, between.values, close, degrees, means, strict=True)
        detail: dict[str, Any] = {
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
