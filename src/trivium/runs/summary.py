"""Records of the summary of a run: means, intervals, gates and costs (docs/definitions/files.md#summary)."""

from typing import Any, Protocol, Self

import msgspec

from trivium.display import RichRepr
from trivium.runs.spread import Spread
from trivium.store.records import RunRecord
from trivium.suites.settings import DecideSettings, Policy
from trivium.trust.distributions import Answer
from trivium.trust.sample_size import MOST_NEEDED, POWER
from trivium.values import counted, resolved


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """Fallback values that a figure leaves out, because they measure something else.

    Attributes:
        method: How they were computed, such as ``similarity`` as a fallback for a judgement.
        n: Number of values.
        mean: Their mean.
    """

    method: str
    n: int
    mean: float


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """A mean over a run.

    Definition: docs/definitions/scores.md#mean.

    Attributes:
        mean: The mean; None if there is no value.
        ci95: Interval (low, high) at a level that is not always 95 %; None for one group or without values.
        n: Number of values.
        coverage: Share of attempts (of cases, for scores of cases) that have a value, in [0, 1].
        groups: Number of clusters.
        status: Number of scores by status.
        method: How the interval was computed, or None.
    """

    mean: float | None
    ci95: tuple[float, float] | None
    n: int
    coverage: float
    groups: int
    status: dict[str, int]
    method: str | None


class Figure(Mean, frozen=True, kw_only=True):
    """The mean of a metric, or a rate.

    Attributes:
        level: Confidence level of the interval, in (0, 1).
        bounds: The mean if every missing value were 0, and if every one were 1.
        raw_mean: Mean in the natural unit, if the raw values are numbers.
        tier: text, judge, trace or composite.
        missing: Number of missing scores (docs/definitions/scores.md#missing-scores).
        aside: Fallback values that the mean leaves out.
        unit: Unit of ``raw_mean``, such as ``s``; "" for a plain number; None if only the score counts.
        better: Whether a higher or a lower ``raw_mean`` (without a unit: mean) is better; None for metrics
            that describe an agent without rating it.
    """

    level: float = 0.95
    bounds: tuple[float, float] | None = None
    raw_mean: float | None = None
    tier: str | None = None
    missing: int = 0
    aside: Aside | None = None
    unit: str | None = None
    better: str | None = "higher"


class HumanFigure(Figure, frozen=True, kw_only=True):
    """A figure of people's own outputs, with the run's comparable figure.

    Definition: docs/definitions/agreement.md#human-ceiling.

    Attributes:
        run_mean: The run's mean, computed as for people: each reference left out in turn, over the cases
            where people have a value, with the same weights. None if the run has no value.
        run_ci95: Its interval, or None.
    """

    run_mean: float | None = None
    run_ci95: tuple[float, float] | None = None


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A share of attempts, such as the pass rate. Its fields are those of :class:`Figure`."""

    value: float | None
    ci95: tuple[float, float] | None
    n: int
    groups: int
    method: str | None
    coverage: float = 1.0


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that failed or did not pass, and why."""

    case: str
    repeat: int
    why: str


class GateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a gate: pass, fail or inconclusive (docs/definitions/intervals.md#gate).

    Attributes:
        gate: The condition, such as ``clarity ≥ 0.8``.
        answer: pass, fail or inconclusive, by the policy. With missing scores, ``pass`` holds even if they
            were all at their worst, and ``fail`` even if they were all at their best.
        proof: What the interval proves; None in runs of older versions, whose ``answer`` it is.
        probabilities: Probability that the true mean misses the limit; with missing scores two of them, with
            all of these at their worst and at their best. Empty if nothing was measured.
        value: The mean of the present values, or None.
        ci95: Its interval.
        needs_cases: Further cases that would settle the gate with 80 % probability if the true mean equals
            the estimate. 0 if it is settled, or open only because of missing scores; None without an
            interval, or if more than 10,000 cases (or groups of several cases) would be needed.
        needs_groups: Number of groups of these cases.
        missing: Number of missing scores.
        due: Number of scores that should be present.
        why: Most frequent reason why scores are missing.
        ignored: Whether the gate ignores missing scores (``missing: ignore``).
        worst: The interval with every missing score at its worst; None if none is missing or they are
            ignored.
        best: The interval with every missing score at its best.
        method: How its interval was computed, if it holds at every look (``until_decided``); else None.
    """

    gate: str
    answer: Answer
    value: float | None
    ci95: tuple[float, float] | None
    needs_cases: int | None
    needs_groups: int | None = None
    missing: int = 0
    due: int = 0
    why: str | None = None
    ignored: bool = False
    worst: tuple[float, float] | None = None
    best: tuple[float, float] | None = None
    method: str | None = None
    proof: Answer | None = None
    probabilities: tuple[float, ...] = ()

    def by(self, how: DecideSettings, policy: Policy | None = None) -> Self:
        """The same gate, answered as the settings say, or by another policy."""
        proven, how = self.proof or self.answer, how.with_policy(policy)
        return msgspec.structs.replace(self, proof=proven, answer=how.answer(proven, self.probabilities))


class CompositeFigure(Mean, frozen=True, kw_only=True):
    """The composite over a run.

    Attributes:
        coverage: Share of the weight that was scored, averaged over attempts
            (docs/definitions/scores.md#composite-coverage).
        recommendation: Recommendation for the mean composite; None if too little was measured.
        why_none: Why there is no recommendation, or None.
        threshold: The threshold nearest to the mean.
        distance: Distance from the mean to that threshold.
        p_change: Probability that other cases would change the recommendation, or None.
        recommendations: Number of attempts by recommendation.
        parts: Mean of each part with a weight, as in ``metrics``.
        missing: Number of attempts with a missing part.
        asked: Whether the suite uses the composite, so that reports show it
            (docs/definitions/scores.md#composite-shown).
    """

    recommendation: str | None
    distance: float | None
    p_change: float | None
    recommendations: dict[str, int]
    parts: dict[str, float | None]
    threshold: float | None = None
    why_none: str | None = None
    missing: int = 0
    asked: bool = True


class ModelCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, tokens and cost of judges, by model or by dimension.

    Dimensions that are judged in one request share its costs equally.

    Attributes:
        requests: Requests sent, including failed ones.
        answered: Requests that got a response, usable or not.
        from_cache: Responses taken from the cache instead of a request.
        input_tokens: Input tokens of the requests answered.
        output_tokens: Output tokens of the requests answered.
        cost_usd: Cost of the responses with a known price; None if no response has one.
        unpriced: Responses without a known price.
        unknown: Requests whose cost is unknown (a timeout, a lost connection, a response without usage).
        unknown_usd: The most that those may cost.
        unknown_tokens: The most tokens that those may have used.
    """

    requests: float
    answered: float
    from_cache: float
    input_tokens: float
    output_tokens: float
    cost_usd: float | None
    unpriced: float
    unknown: float
    unknown_usd: float
    unknown_tokens: float = 0


class JudgeCosts(ModelCosts, frozen=True, kw_only=True):
    """Total costs of the judges of a run.

    Attributes:
        budget_usd: Most that the run may spend, or None.
        budget_tokens: Most tokens that the run may use, or None.
        models: Costs by model.
        dimensions: Costs by dimension.
    """

    budget_usd: float | None
    budget_tokens: int | None
    models: dict[str, ModelCosts]
    dimensions: dict[str, ModelCosts]


class AgentTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent itself took, over all attempts made.

    Definition: docs/definitions/scores.md#agent-totals.

    Attributes:
        attempts: Number of attempts.
        failures: Number of attempts that failed by the agent's doing.
        timed: Number of attempts with a latency.
        latency_p50: Median latency in seconds, or None.
        latency_p95: 95th percentile of the latency in seconds, or None.
        latency_method: How the percentiles are computed: ``nearest rank``, always the latency of an attempt.
        input_tokens: Sum of input tokens; None if no attempt reports them.
        output_tokens: Sum of output tokens; None if no attempt reports them.
        with_tokens: Number of attempts that report tokens.
        cost_usd: Sum of costs in USD, reported or at list price; None if no cost is known.
        with_cost: Number of attempts with a cost.
        priced: Number of these whose cost is their tokens at today's list price (genai-prices).
        partly: Number of these with tokens of a class, such as cached ones, that has no price.
    """

    attempts: int = 0
    failures: int = 0
    timed: int = 0
    latency_p50: float | None = None
    latency_p95: float | None = None
    latency_method: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    with_tokens: int = 0
    cost_usd: float | None = None
    with_cost: int = 0
    priced: int = 0
    partly: int = 0


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """Judgements of one dimension that a certificate accepts or refers to people.

    Definition: docs/definitions/calibration.md#accepted.

    Attributes:
        certificate: The file of the certificate.
        confidence: Name of the confidence that the threshold refers to.
        threshold: Judgements at least this confident are accepted; None accepts none.
        epsilon: Tolerated error rate among the accepted, in (0, 1).
        delta: Probability that the error rate exceeds ``epsilon`` all the same, in (0, 1).
        accepted: Number of judgements accepted without a person.
        to_people: Number of judgements that go to people.
        why: Number of judgements that go to people by reason, most frequent first.
        larger_groups: Number of groups with more accepted judgements than the certificate holds for.
    """

    certificate: str
    confidence: str
    threshold: float | None
    epsilon: float
    delta: float
    accepted: int
    to_people: int
    why: dict[str, int] = {}
    larger_groups: int = 0


@resolved
class Summary(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a run; displays itself as a table in a terminal and in a notebook.

    Attributes:
        run: Id of the run.
        suite: Name of the suite.
        cases: Number of cases of the suite.
        attempts: Number of attempts made.
        total_tests: Number of attempts that should have been made.
        passed: Number of attempts that passed.
        failed: Number of attempts that did not pass.
        missing: Number of missing attempts.
        errors: Number of failed attempts (``attempts``), of scores with status error (``scores``) and of
            judgements that no judge could make (``judgements``).
        pass_rate: Share of attempts that passed.
        metrics: Every metric by name, in the order of the suite.
        dimension_averages: Mean of every judged dimension.
        composite: The composite, or None if no part has a weight.
        human_ceiling: Each metric over people's own outputs, if the suite has them, with the run's comparable
            value.
        failures: The first hundred attempts that did not pass, worst first; ``failures_left_out`` counts the
            others.
        gates: Answers of the suite's gates.
        warnings: Reservations that change how to read the numbers.
        spent: Costs of the judges, or None if none was asked.
        acceptance: Judgements that certificates accept, by dimension; empty without certificates.
        metadata: ``level``, ``resamples`` and ``seed`` of the intervals; ``agent``, ``trivium``, ``commit``
            and ``judges`` of the run.
        agent: Latency, tokens, cost and failures of the agent; None in runs of earlier versions.
        notes: Remarks that do not change how to read the numbers.
        left_out: Metrics that are on by default and applied to no attempt.
        spread: Where the spread of each metric comes from, if several models played the users; else empty.
    """

    run: str
    suite: str
    cases: int
    attempts: int
    total_tests: int
    passed: int
    failed: int
    missing: int
    errors: dict[str, int]
    pass_rate: Rate
    metrics: dict[str, Figure]
    dimension_averages: dict[str, float]
    composite: CompositeFigure | None
    human_ceiling: dict[str, HumanFigure] | None
    failures: tuple[Failure, ...]
    failures_left_out: int
    gates: tuple[GateAnswer, ...]
    warnings: tuple[str, ...]
    spent: JudgeCosts | None = None
    acceptance: dict[str, Acceptance] = {}
    metadata: dict[str, Any] = {}
    agent: AgentTotals | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    spread: dict[str, Spread] = {}

    @property
    def shown_composite(self) -> CompositeFigure | None:
        """The composite, if the suite uses it."""
        return self.composite if self.composite is not None and self.composite.asked else None

    def by(self, how: DecideSettings, policy: Policy | None) -> Self:
        """The same summary, its gates decided by another policy; None changes nothing."""
        if policy is None:
            return self
        return msgspec.structs.replace(self, gates=tuple(gate.by(how, policy) for gate in self.gates))


def summary_of(run: RunRecord) -> Summary | None:
    """The summary that was stored when a run finished; None before that."""
    return None if run.summary is None else msgspec.convert(run.summary, Summary)


class Undecided(Protocol):
    """The answer of a gate or of a comparison."""

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The interval that the answer is based on."""

    @property
    def needs_cases(self) -> int | None:
        """Number of further cases that would settle it."""

    @property
    def needs_groups(self) -> int | None:
        """Number of groups of these cases."""


def further_cases_needed(result: Undecided) -> str | None:
    """Say how many further cases would settle a result; None if it is settled or the number is unknown."""
    if result.ci95 is None or result.needs_cases == 0:
        return None
    if result.needs_cases is None:
        return f"more than {MOST_NEEDED:,} more would be needed to settle it"
    number = counted(result.needs_cases, "more case")
    if result.needs_groups not in {None, result.needs_cases}:
        number = f"{counted(result.needs_groups or 0, 'more group')} ({result.needs_cases:,} cases)"
    return (
        f"about {number} would settle it with {100 * POWER:g} % probability "
        "if the truth is where the estimate is"
    )
