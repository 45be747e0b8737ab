"""Tool efficiency: the mean of path convergence and tool selection (spec: metrics, T3.12)."""

from typing import ClassVar

from trivium.metrics.metric import Metric, Skip, Subject, metric
from trivium.metrics.score import Score, Tier

PARTS = ("path_convergence", "tool_selection")


@metric("tool_efficiency", needs=PARTS)
class ToolEfficiency(Metric):
    """Mean of ``path_convergence`` and ``tool_selection``, over those that are not skipped."""

    tier: ClassVar[Tier] = "trace"

    def score(self, subject: Subject) -> Score:
        """The score of one attempt; an error when a part of it is one."""
        parts = {name: subject.scores[name] for name in PARTS}
        for name, part in parts.items():
            if part.status == "error":
                return self.error(f"{name}: {part.reason}")
        values = {name: part.value for name, part in parts.items() if part.value is not None}
        if not values:
            raise Skip(f"{PARTS[0]}: {parts[PARTS[0]].reason}; {PARTS[1]}: {parts[PARTS[1]].reason}")
        return self.ok(sum(values.values()) / len(values), detail=dict(values))
