"""The summary of a run: its figures and how precise they are (spec: files, machine-readable answers)."""

from typing import Any

import msgspec

from trivium.display import RichRepr


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """Fallback values that a figure leaves out, for they are another quantity.

    Attributes:
        method: How they were made: ``similarity`` where it stands in for a judgement.
        n: How many.
        mean: Of them.
    """

    method: str
    n: int
    mean: float


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A mean or a rate over a run.

    Attributes:
        mean: The figure; None when nothing had a value.
        ci95: Interval (low, high), or None where there is none (one group, no value). The name is
            kept whatever the level; ``level`` says which it is.
        n: Values that entered.
        coverage: Share of attempts (of cases, for a figure of a case) that have a value, in [0, 1].
        groups: Clusters that entered.
        status: Count of scores by status.
        method: How the interval was made, or None.
        level: Of the interval.
        bounds: The mean if all that is missing were 0, and if it were 1.
        raw_mean: Mean in the natural unit, where the raw values are numbers.
        tier: text, judge, trace or composite.
        missing: Scores that were due and are not there (spec: metrics, "What was due and is not there").
        aside: Fallback values beside the figure, which they are no part of.
    """

    mean: float | None
    ci95: tuple[float, float] | None
    n: int
    coverage: float
    groups: int
    status: dict[str, int]
    method: str | None
    level: float = 0.95
    bounds: tuple[float, float] | None = None
    raw_mean: float | None = None
    tier: str | None = None
    missing: int = 0
    aside: Aside | None = None


class HumanFigure(Figure, frozen=True, kw_only=True):
    """A figure of people's own outputs, and the run's beside it on equal footing (spec: metrics, H.5).

    Attributes:
        run_mean: The run's mean, measured as people are: with each reference left out in turn, over the cases
            where people have a value, each weighing as it does for them. None where the run has no value.
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
    """What a gate says: pass, fail or inconclusive (spec: metrics, B.5).

    Attributes:
        gate: What it asks, such as ``clarity ≥ 0.8``.
        answer: pass, fail or inconclusive. Where something is missing it holds however that comes out: at
            its worst a gate that passes, at its best one that fails.
        value: The figure over what is there, or None.
        ci95: Its interval.
        needs_cases: How many further cases would settle it with 80 % probability if the truth is where the
            estimate is; 0 where it is settled, or kept open by what is missing alone; None where more than
            10,000 (groups, where they hold several) would be needed or there is no interval.
        needs_groups: How many groups these are.
        missing: Scores that were due and are not there.
        due: Scores that were due.
        why: Why they are missing.
        ignored: Whether the gate leaves them out (``missing: ignore``).
        worst: The interval with all that is missing at its worst; None where nothing is, or it is ignored.
        best: The interval with all that is missing at its best.
    """

    gate: str
    answer: str
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


class CompositeFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The composite over a run.

    Attributes:
        coverage: Share of the weight that was scored, averaged over attempts (spec: metrics, C.2).
        recommendation: Of the mean composite; None where too little was measured.
        why_none: Why there is no recommendation, or None.
        threshold: The threshold that the mean lies nearest to.
        distance: From the mean to it.
        p_change: Chance that other cases would change the recommendation, or None.
        recommendations: Count of attempts by recommendation.
        parts: Mean of each part with a weight, as ``metrics`` has it.
        missing: Attempts of which a part was due and is not there.
    """

    mean: float | None
    ci95: tuple[float, float] | None
    n: int
    coverage: float
    groups: int
    status: dict[str, int]
    method: str | None
    recommendation: str | None
    distance: float | None
    p_change: float | None
    recommendations: dict[str, int]
    parts: dict[str, float | None]
    threshold: float | None = None
    why_none: str | None = None
    missing: int = 0


class ModelCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What some requests to judges took; of a dimension its share, where several are judged together.

    Attributes:
        requests: That were sent, those included that came to nothing.
        answered: Requests that brought a reply, usable or not.
        from_cache: Replies that were kept from before and not asked for.
        input_tokens: Read, by the replies that were asked for.
        output_tokens: Written, likewise.
        cost_usd: Of the replies with a known price; None where no reply has one.
        unpriced: Replies without a known price.
        unknown: Requests of which nobody can say what is billed (a timeout, a lost connection, a reply that
            does not say what it took).
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
    """What a run spent on judges.

    Attributes:
        budget_usd: Most that it may spend, or None.
        budget_tokens: Most tokens that it may use, or None.
        models: The same by model.
        dimensions: The same by dimension, what is judged together in equal shares.
    """

    budget_usd: float | None
    budget_tokens: int | None
    models: dict[str, ModelCosts]
    dimensions: dict[str, ModelCosts]


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """What a certificate makes of the judgements of one dimension (spec: metrics, H.4).

    Attributes:
        certificate: The file that it came from.
        confidence: Which confidence the threshold is of.
        threshold: Judgements at least this confident are accepted; None accepts none.
        epsilon: Error among the accepted that is tolerated.
        delta: Chance that this promise is broken.
        accepted: Judgements that stand without a person.
        to_people: The others.
        why: How many go to people for which reason, the most frequent first.
    """

    certificate: str
    confidence: str
    threshold: float | None
    epsilon: float
    delta: float
    accepted: int
    to_people: int
    why: dict[str, int] = {}


class Summary(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """What a run says; shows itself as a table in a terminal and in a notebook.

    Attributes:
        run: Id of the run.
        suite: Name of the suite.
        cases: Cases of the suite.
        attempts: Attempts that are there.
        total_tests: Attempts that were due.
        passed: Attempts that passed.
        failed: Attempts that did not.
        missing: Attempts that were due and are not there.
        errors: Attempts that failed, scores with status error, and judgements that were due and for which no
            judge could be had.
        pass_rate: Share of attempts that passed.
        metrics: Every metric by name, in the order of the suite.
        dimension_averages: Mean of every judged dimension.
        composite: The composite, or None when no part has a weight.
        human_ceiling: Each metric over people's own outputs, where the suite has them, and the run's value
            measured in the same way.
        failures: The attempts that did not pass, worst first; ``failures_left_out`` counts those
            beyond the first hundred.
        gates: Answers of the suite's gates.
        warnings: What a reader must know before reading the numbers.
        spent: What judges cost, or None where none were asked.
        acceptance: What certificates make of the judgements, by dimension; empty without certificates.
        metadata: ``level``, ``resamples`` and ``seed`` of the intervals, and anything else.
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
