"""The result of comparing two runs (spec: metrics, B.4, B.5; files, compare)."""

from typing import Literal

import msgspec

from trivium.display import RichRepr
from trivium.errors import RegressionError
from trivium.runs.comparing.graph_edges import GraphComparison
from trivium.runs.needed_cases import further_cases_needed
from trivium.trust.paired import Answer


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A case and the change of a figure on it."""

    case: str
    base: float
    head: float
    delta: float


class MetricDelta(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of one figure, head minus base, over the pairs both runs have.

    Attributes:
        delta: Mean difference over cases; None without pairs.
        ci95: Interval of the difference, at the comparison's level whatever its name says.
        p: Two-sided p-value of no difference, by the method of the interval: below 1 - level where that is
            off 0.
        p_holm: The same, adjusted for the number of metrics.
        share_positive: Share of resamples with a difference above 0.
        mde: The least true difference that so many cases would show with probability 0.8.
        wins: Cases in which head is better.
        losses: Cases in which base is better.
        ties: Cases in which they are equal.
        base: Mean of base over the paired cases.
        head: Mean of head over the paired cases.
        n: Paired cases.
        pairs: Paired attempts.
        left_out: Paired attempts of which one side has no value, or values made in unlike ways.
        groups: Clusters of the paired cases.
        method: How the interval was made.
        answer: pass, fail or inconclusive, by the interval alone.
        needs_cases: How many further cases would settle it with 80 % probability if the truth is where the
            estimate is; 0 where it is settled, None where more than 10,000 would be needed or there is no
            interval.
        needs_groups: How many groups (clusters) these are.
        worst: The cases that lost most.
        tier: text, judge, trace or composite.
        missing: Paired attempts of which a side was due and is missing; the answer holds however those come
            out.
    """

    delta: float | None
    ci95: tuple[float, float] | None
    p: float | None
    p_holm: float | None = None
    share_positive: float | None
    mde: float | None
    wins: int
    losses: int
    ties: int
    base: float | None
    head: float | None
    n: int
    pairs: int
    left_out: int
    groups: int
    method: str | None
    answer: Answer
    needs_cases: int | None
    needs_groups: int | None = None
    worst: tuple[Move, ...]
    tier: str | None = None
    missing: int = 0


class Comparison(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing two runs.

    Attributes:
        base: Id of the run compared with.
        head: Id of the run in question.
        suite: Name of the head's suite.
        answer: pass, fail or inconclusive. It fails where a deciding figure fails, or any other whose
            loss stays beyond chance among so many (``p_holm``); it passes where every deciding one does.
        reason: What the answer rests on, in a sentence.
        decided_by: The deciding figures: composite and pass_rate where the runs have them, else all.
        metrics: Every figure that both runs have.
        only_base: Cases that base alone has attempts of.
        only_head: Cases that head alone has attempts of.
        unpaired: Attempts without a counterpart, by run.
        moved: The cases that moved most, by ``moves_of``.
        moves: The same with their values.
        moves_of: The figure by which ``moved`` is ordered.
        unchanged: Whether all outputs are the same.
        margin: The loss that does not matter.
        level: Of the intervals.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
        warnings: What a reader must know before reading the numbers.
        graphs: What changed in what they did, where that was asked for.
        missing: By run and figure how many scores are missing because of an error or for want of a judge, and
            attempts that are missing altogether as ``attempts``; empty where nothing is.
    """

    base: str
    head: str
    suite: str
    answer: Answer
    reason: str
    decided_by: tuple[str, ...]
    metrics: dict[str, MetricDelta]
    only_base: tuple[str, ...]
    only_head: tuple[str, ...]
    unpaired: dict[str, int]
    moved: tuple[str, ...]
    moves: tuple[Move, ...]
    moves_of: str
    unchanged: bool
    margin: float
    level: float
    resamples: int
    seed: int
    warnings: tuple[str, ...]
    graphs: GraphComparison | None = None
    missing: dict[str, dict[str, int]] = {}

    def require_no_regression(self, *, inconclusive: Literal["pass", "fail"] = "fail") -> None:
        """Raise unless head is shown to be no worse than base by more than the margin.

        Args:
            inconclusive: What an inconclusive answer counts as.

        Raises:
            RegressionError: With the intervals and the cases that lost most.
        """
        if self.answer == "pass" or (self.answer == "inconclusive" and inconclusive == "pass"):
            return
        raise RegressionError(self._complaint())

    def _complaint(self) -> str:
        lines = [f"{self.head} against {self.base}: {self.answer}. {self.reason}"]
        listed: set[str] = set()
        for name, figure in self.metrics.items():
            if figure.answer == "fail" or (name in self.decided_by and figure.answer == "inconclusive"):
                lines.append(f"  {name}: {_sentence(figure)}")
                lines += [
                    f"    {move.case}: {move.base:.3f} → {move.head:.3f} ({move.delta:+.3f})"
                    for move in figure.worst
                    if move.case not in listed
                ]
                listed |= {move.case for move in figure.worst}
        return "\n".join(lines)


def _sentence(figure: MetricDelta) -> str:
    if figure.delta is None:
        return "no pair has values on both sides"
    text = f"{figure.answer}, {figure.delta:+.3f}"
    if figure.ci95 is not None:
        text += f" [{figure.ci95[0]:+.3f}, {figure.ci95[1]:+.3f}]"
    settled_by = further_cases_needed(figure)
    return f"{text}, {settled_by}" if settled_by else text
