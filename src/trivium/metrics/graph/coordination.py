"""Coordination quality: how well the agents worked together (spec: metrics, T3.10)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

from trivium.metrics.graph.communication import overhead
from trivium.metrics.graph.interaction_graph import interactions, recorded_by
from trivium.metrics.graph.measures import global_efficiency
from trivium.metrics.metric import Skip, TraceMetric, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.suites.settings import MessageSettings, Settings
from trivium.traces.trace import Trace

Pair = tuple[str, str]


@metric("coordination_quality", version="2")
class CoordinationQuality(TraceMetric):
    """(1 − share of messages that only coordinate) × efficiency, in [0, 1].

    With ``expect.workflow``, efficiency is the F1 of the ordered pairs of agents that handed work on against
    the workflow's consecutive pairs; answers back do not count, so that a run that follows it has 1. Else it
    is the global efficiency of the undirected interaction graph (Latora & Marchiori 2001), which is 1 when
    everyone talks to everyone: it says how easily word gets around, not whether it had to. One agent, or no
    messages: skipped.

    Frameworks record one and the same job differently, a hand-off in one being a request and its answer in
    another: ``method`` says who recorded the trace, and unlike ones are not compared.

    Attributes:
        messages: Which types coordinate and which produce.
    """

    messages: MessageSettings = MessageSettings()

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's types of messages."""
        return cls(messages=settings.messages)

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace; ``detail`` has both factors and what of the workflow is amiss."""
        found = interactions(trace)
        if len(found.agents) < 2:
            raise Skip("the trace has fewer than two agents")
        if not found.types:
            raise Skip("the trace has no messages between agents")
        share = overhead(found.types, self.messages).share
        detail: dict[str, Any] = {"communication_overhead": share}
        if case.expect.workflow is not None:
            efficiency = _follows(found.handed_on, case.expect.workflow, detail)
            method = "workflow"
        else:
            efficiency = global_efficiency(found.shape)
            method = "global_efficiency"
            if found.shape.sources is not None:
                detail |= {"estimated": True, "sources": len(found.shape.sources)}
        detail["efficiency"] = efficiency
        recorded = recorded_by(trace)
        method = f"{method}, {recorded}" if recorded else method
        return self.ok((1.0 - share) * efficiency, method=method, detail=detail)


def _follows(observed: Sequence[Pair], workflow: Sequence[str], detail: dict[str, Any]) -> float:
    """F1 of the observed pairs against the workflow's; 1 when neither has any."""
    wanted = dict.fromkeys(pairwise(workflow))
    missing = [pair for pair in wanted if pair not in observed]
    extra = [pair for pair in observed if pair not in wanted]
    detail |= {"missing_pairs": missing, "extra_pairs": extra}
    both = len(wanted) + len(observed)
    return 2 * (len(wanted) - len(missing)) / both if both else 1.0
