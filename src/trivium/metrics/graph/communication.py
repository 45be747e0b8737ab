"""Communication overhead: the share of messages that only coordinate (spec: metrics, T3.8)."""

from collections.abc import Mapping
from typing import Self

import msgspec

from trivium.metrics.graph.interaction_graph import interactions, recorded_by
from trivium.metrics.metric import Skip, TraceMetric, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.suites.settings import MessageSettings, Settings
from trivium.traces.trace import Trace


class Overhead(msgspec.Struct, frozen=True):
    """Messages of each sort; a type that neither coordinates nor produces counts in the total only."""

    coordination: int
    productive: int
    total: int

    @property
    def share(self) -> float:
        """Coordination messages / all messages."""
        return self.coordination / self.total


def overhead(types: Mapping[str, int], messages: MessageSettings) -> Overhead:
    """Sorts messages by what their type does.

    Args:
        types: Number of messages by type.
        messages: Which types coordinate and which produce.
    """
    return Overhead(
        sum([count for type_, count in types.items() if type_ in messages.coordination]),
        sum([count for type_, count in types.items() if type_ in messages.productive]),
        sum(types.values()),
    )


@metric("communication_overhead")
class CommunicationOverhead(TraceMetric):
    """1 − coordination messages / all messages between agents, in [0, 1]; ``raw`` is the share itself.

    Skipped without messages.

    Attributes:
        messages: Which types coordinate and which produce.
    """

    messages: MessageSettings = MessageSettings()

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's types of messages."""
        return cls(messages=settings.messages)

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace.

        ``detail`` has the counts by type and ``coordination_to_productive``, None when nothing produces.
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
