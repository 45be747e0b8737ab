"""Checks whether two runs are comparable, and decides on each difference: pass, fail or inconclusive."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np

from trivium.errors import ComparisonError, Problem
from trivium.runs.comparing.comparison import MetricDelta, Statistics, Word, WrongRates
from trivium.runs.comparing.pairing import PairedScores, Pairing
from trivium.runs.run import Run
from trivium.store.records import Provenance, RunKind
from trivium.suites.case import Case
from trivium.suites.digest import digest_of
from trivium.suites.settings import DecideSettings, JudgeSettings, Policy, Settings
from trivium.trust.decision import DEFAULT_PRIOR, DifferencePrior, probability_of_loss
from trivium.trust.distributions import Answer
from trivium.trust.paired import Paired, holm, non_inferiority, overall, paired_means, settling_groups
from trivium.trust.sample_size import groups_to_show, shown_margin
from trivium.values import json_text

_MEANING = (
    "references",
    "group",
    "reduce",
    "failed_attempts",
    "similarity",
    "success",
    "passed",
    "tools",
    "messages",
    "retrieval",
    "world",
)
"""Settings that change the meaning of a score. The encoder is not among them, because scores name it."""

_OPERATION = frozenset(
    {"concurrency", "timeout", "budget_usd", "budget_tokens", "prices", "cache", "certificate"}
)
"""Settings of a judge that change its cost or speed, not its judgements."""

_CASES_NAMED = 5
WORST_SHOWN = 5


def incomparabilities(base: Run, head: Run) -> Iterator[str]:
    """Describe each difference that makes two runs incomparable."""
    yield from differences_from(
        base,
        kind=head.record.kind,
        provenance=head.provenance,
        settings=head.record.settings,
        suite=head.record.suite,
        cases=head.cases,
    )


def differences_from(
    base: Run,
    *,
    kind: RunKind,
    provenance: Provenance,
    settings: Settings,
    suite: str,
    cases: Callable[[], Iterable[Case]],
) -> Iterator[str]:
    """Describe each difference that makes a run, which need not have begun, incomparable with another.

    Args:
        base: The other run.
        kind: Kind of the run.
        provenance: At least the versions of its metrics and its judge.
        settings: Its settings.
        suite: Digest of its suite.
        cases: Reads its cases.
    """
    if (base.record.kind == "human") != (kind == "human"):
        yield "one run holds people's own outputs, scored against each other: its references differ"
    yield from _recorded(base.provenance, provenance)
    yield from _settings(base.record.settings, settings)
    if base.record.suite != suite:
        yield from _cases(base, cases())


def _recorded(base: Provenance, head: Provenance) -> Iterator[str]:
    """Compare versions of metrics, where and by which rubrics judges were asked, and where worlds begin."""
    pairs: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {"metrics": (base.metrics, head.metrics)}
    if base.judge and head.judge:  # its settings are compared in _settings
        yield from _addresses(base.judge.addresses, head.judge.addresses)
        pairs["judge.rubrics"] = base.judge.rubrics, head.judge.rubrics
        pairs["judge.prompts"] = base.judge.prompts, head.judge.prompts
    pairs["world"] = base.world, head.world
    for part, (ours, theirs) in pairs.items():
        for name in ours:
            if name in theirs and ours[name] != theirs[name]:
                yield f"{part}.{name}: {_short(ours[name])} in base, {_short(theirs[name])} in head"


def _addresses(base: Mapping[str, str | None], head: Mapping[str, str | None]) -> Iterator[str]:
    """Describe models with different addresses; an unavailable model has none, and is not reported here."""
    for model, ours in base.items():
        theirs = head.get(model)
        if ours is not None and theirs is not None and ours != theirs:
            yield f"{model} was asked at {ours} in base, at {theirs} in head"


def _settings(base: Settings, head: Settings) -> Iterator[str]:
    pairs = {name: (getattr(base, name), getattr(head, name)) for name in _MEANING}
    pairs["composite.weights"] = base.composite.weights, head.composite.weights
    pairs["composite.missing"] = base.composite.missing, head.composite.missing
    if base.judge and head.judge:
        names = [name for name in JudgeSettings.__struct_fields__ if name not in _OPERATION]
        pairs |= {f"judge.{name}": (_setting(base.judge, name), _setting(head.judge, name)) for name in names}
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield f"{'pass' if name == 'passed' else name}: {_short(ours)} in base, {_short(theirs)} in head"


def _setting(judge: JudgeSettings, name: str) -> Any:
    """Return a setting of a judge; for rubrics of the suite, name and digest."""
    if name != "rubric":
        return getattr(judge, name)
    return [each if isinstance(each, str) else f"{each.name} {each.digest}" for each in judge.rubric]


def _cases(base: Run, cases: Iterable[Case]) -> Iterator[str]:
    known = {case.id: _content(case) for case in base.cases()}
    changed = [case.id for case in cases if known.get(case.id, content := _content(case)) != content]
    if changed:
        named = ", ".join(changed[:_CASES_NAMED]) + (", …" if len(changed) > _CASES_NAMED else "")
        yield f"{len(changed):,} of the cases have changed: {named}"


def _content(case: Case) -> str:
    """Digest of a case without its tags and metadata."""
    return digest_of([msgspec.structs.replace(case, tags=(), metadata={})])


def _short(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


DECIDING = ("pass_rate", "composite")
"""Metrics by priority; the first available one decides. If several decided, some would fail by chance
alone."""


def deciding(names: Iterable[str], by: str | None) -> tuple[str, ...]:
    """The metrics of two runs that decide their comparison: by default pass rate or composite, else all.

    Definition: docs/definitions/decisions.md#policy.

    Args:
        names: The metrics that both have.
        by: The metric that the suite names, if it names one.
    """
    known = list(names)
    named = [name for name in DECIDING if name in known] if by is None else [by]
    return tuple(named[:1] or known)


_MEASURED: dict[Policy, dict[int, tuple[int, int, int]]] = {
    "balanced": {5: (32, 0, 0), 10: (25, 3, 0), 20: (21, 4, 0), 60: (14, 5, 0), 200: (7, 3, 0)},
    "proof": {5: (0, 0, 100), 10: (0, 0, 100), 20: (0, 0, 98), 60: (0, 0, 83), 200: (0, 1, 53)},
    "strict": {5: (0, 68, 0), 10: (0, 68, 0), 20: (0, 67, 0), 60: (0, 58, 0), 200: (0, 40, 0)},
}
"""Wrong ships, wrong blocks and undecided comparisons of 100 by number of cases, from docs/decisions.md."""


def wrong_rates(how: DecideSettings, cases: int) -> WrongRates | None:
    """Look up the error rates of a policy, in the largest trials with at most this many cases.

    Args:
        how: The policy, and the costs of wrong decisions.
        cases: Number of cases.

    Returns:
        None if every trial had more cases, or for ``balanced`` if the two wrong decisions differ in cost.
    """
    tried = [n for n in _MEASURED[how.policy] if n <= cases]
    if not tried or (how.policy == "balanced" and how.costs.threshold != 0.5):
        return None
    ship, block, undecided = (share / 100 for share in _MEASURED[how.policy][max(tried)])
    return WrongRates(max(tried), ship, block, undecided)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a comparison.

    Attributes:
        margin: The loss that does not matter, in [0, 1].
        level: Confidence level of the intervals, in (0, 1).
        resamples: Number of bootstrap resamples, at least 1.
        seed: Seed of the bootstrap, at least 0.
        decide: How the answer is made of what is proven and how probable a loss is.
        prior: What is known of the difference beforehand.
        prior_of: The metric that it was learned for; the others have the default. None for all.
    """

    margin: float
    level: float
    resamples: int
    seed: int
    decide: DecideSettings = DecideSettings()
    prior: DifferencePrior = DEFAULT_PRIOR
    prior_of: str | None = None

    def prior_for(self, metric: str) -> DifferencePrior:
        """What is known beforehand of the difference of a metric."""
        return self.prior if self.prior_of in {None, metric} else DEFAULT_PRIOR

    def wrong_rates(self, groups: int) -> WrongRates | None:
        """How often the policy was wrong in trials with about as many cases as there are groups.

        None if it is about these very cases: the trials were about cases like them.
        """
        return wrong_rates(self.decide, groups) if self.decide.about == "like-these" else None

    @classmethod
    def of(cls, head: Run, given: Statistics) -> Self:
        """The options that are given, and else those of head's settings.

        Raises:
            ComparisonError: If any is out of range; it lists all of them.
        """
        settings = head.record.settings
        named = {name: value for name, value in given.items() if value is not None}
        how = {name: named.pop(name) for name in ("policy", "about") if name in named}
        own = {name: getattr(settings, name) for name in ("margin", "level", "resamples", "seed")}
        return cls(**(own | named), decide=msgspec.structs.replace(settings.decide, **how))

    def __post_init__(self) -> None:
        """Check the ranges of all options.

        Raises:
            ComparisonError: If any is out of range; it lists all of them.
        """
        rules = (
            ("margin", self.margin, "0 to 1", 0 <= self.margin <= 1),
            ("level", self.level, "between 0 and 1", 0 < self.level < 1),
            ("resamples", self.resamples, "at least 1", self.resamples >= 1),
            ("seed", self.seed, "at least 0", self.seed >= 0),
        )
        check_ranges(rules)


def check_ranges(rules: Iterable[tuple[str, float, str, bool]]) -> None:
    """Refuse options out of range; of each its name, its value, the rule, and whether that is met.

    Raises:
        ComparisonError: With all options that are.
    """
    problems = [
        Problem(name, f"found {value:g}, expected {rule}") for name, value, rule, met in rules if not met
    ]
    if problems:
        raise ComparisonError("", problems)


def deltas_of(
    figures: dict[str, PairedScores], pairing: Pairing, tiers: dict[str, str], options: Options
) -> dict[str, MetricDelta]:
    """Compute the differences of all metrics from the same bootstrap resamples.

    Args:
        figures: Paired scores by metric, each with at least one pair.
        pairing: The pairing, for the clusters.
        tiers: Tiers by metric.
        options: Options of the comparison.
    """
    ends = [(one.at_worst, one.at_best) for one in figures.values() if one.at_worst is not None]
    rows = [(one.base, one.head) for one in figures.values()] + [each for both in ends for each in both]
    base, head = (np.array(side) for side in zip(*rows, strict=True))
    estimates = paired_means(
        base, head, pairing.groups, level=options.level, resamples=options.resamples, seed=options.seed
    )
    alike = _alike(figures, options.decide.by)
    present, extremes = dict(zip(figures, estimates, strict=False)), iter(estimates[len(figures) :])
    tested = {name: each.p for name, each in present.items() if each.p is not None and name == alike[name]}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {
        name: msgspec.structs.replace(
            _delta(
                figure,
                present[name],
                () if figure.at_worst is None else (next(extremes), next(extremes)),
                pairing,
                options,
                of=alike[name],
            ),
            tier=tiers[name],
            p_holm=adjusted.get(alike[name]),
            same_as=None if name == alike[name] else alike[name],
        )
        for name, figure in figures.items()
    }


def _alike(figures: Mapping[str, PairedScores], by: str | None) -> dict[str, str]:
    """The first metric with the same values in every case, by metric; those that may decide come first.

    Definition: docs/definitions/comparisons.md#same-values.
    """
    first: dict[object, str] = {}
    for name in (by, *DECIDING, *figures):
        if name is not None and name in figures:
            first.setdefault(figures[name].content, name)
    return {name: first[figure.content] for name, figure in figures.items()}


def _probabilities(estimates: Iterable[Paired], options: Options, metric: str) -> Iterator[float]:
    """Probabilities of a loss beyond the margin; none without an interval."""
    margin, prior = options.margin, options.prior_for(metric)
    for one in estimates:
        if one.delta is not None and one.interval is not None:
            yield probability_of_loss(one.delta, one.interval, margin=margin, prior=prior)


def _delta(
    figure: PairedScores,
    estimate: Paired,
    ends: Sequence[Paired],
    pairing: Pairing,
    options: Options,
    *,
    of: str,
) -> MetricDelta:
    """Decide on a metric.

    It passes only if it also passes with all missing values at their worst, and fails only if it also fails
    with all of them at their best (docs/definitions/scores.md#missing-scores).

    Args:
        figure: Its paired scores.
        estimate: Its difference.
        ends: The same with all missing values at their worst, and at their best; empty if none is missing.
        pairing: The pairing, for the clusters.
        options: Options of the comparison.
        of: The first metric with the same values.
    """
    interval, paired = estimate.interval, figure.has_pair
    cases, groups = int(np.count_nonzero(paired)), int(np.unique(pairing.groups[paired]).size)
    answer = non_inferiority(estimate, margin=options.margin)
    further: int | None = 0
    if answer == "inconclusive":
        further = settling_groups(estimate.clustered, margin=options.margin, level=options.level)
    if ends:
        worst, best = (non_inferiority(each, margin=options.margin) for each in ends)
        answer = "pass" if worst == "pass" else "fail" if best == "fail" else "inconclusive"
        # If the present values settle the metric, only the missing ones keep it open.
        further = 0 if answer != "inconclusive" else further
    shows, groups_needed = None, None
    if answer == "inconclusive" and estimate.clustered is not None:
        shows = shown_margin(estimate.clustered, level=options.level)
        groups_needed = groups_to_show(estimate.clustered, options.margin, level=options.level)
    return MetricDelta(
        base=float(figure.base[paired].mean()) if cases else None,
        head=float(figure.head[paired].mean()) if cases else None,
        delta=estimate.delta,
        ci95=None if interval is None else (interval.low, interval.high),
        p=estimate.p,
        share_positive=estimate.share_positive,
        mde=estimate.mde,
        wins=estimate.counts.wins,
        losses=estimate.counts.losses,
        ties=estimate.counts.ties,
        n=cases,
        pairs=figure.pairs,
        left_out=figure.left_out,
        groups=groups,
        method=None if interval is None else interval.method,
        answer=answer,
        probability=next(_probabilities([estimate], options, of), None),
        probabilities=tuple(_probabilities(ends or [estimate], options, of)),
        needs_cases=further and ceil(further * cases / groups),
        needs_groups=further,
        shows=shows,
        shows_margin=groups_needed and ceil(groups_needed * cases / groups),
        worst=figure.worst(WORST_SHOWN),
        missing=figure.missing,
    )


def moving_metrics(deltas: Mapping[str, MetricDelta], settings: Settings) -> list[str]:
    """The metrics by which a case may have moved (docs/compare-runs.md#what-changed), each value once."""
    names = ["pass_rate", "composite", *settings.gates]
    if "composite" not in deltas:
        names += [name for name, weight in settings.composite.weights.items() if weight and name != "time"]
    return [*dict.fromkeys(deltas[name].same_as or name for name in names if name in deltas)]


def passing(figure: MetricDelta) -> MetricDelta:
    """Decide on a metric of unchanged outputs: an inconclusive answer becomes a pass."""
    if figure.delta is not None and not (figure.wins or figure.losses):
        figure = msgspec.structs.replace(figure, ci95=None, p=None, p_holm=None, mde=None, method=None)
    if figure.answer != "inconclusive":
        return figure
    return msgspec.structs.replace(
        figure,
        answer="pass",
        probability=0.0,
        probabilities=(0.0,),
        needs_cases=0,
        needs_groups=0,
        shows=None,
        shows_margin=None,
    )


class Verdict(NamedTuple):
    """The answer of a comparison, with its reasons.

    Attributes:
        answer: The answer by the policy.
        proof: What is proven.
        word: The verdict in words.
        probability: Probability of a loss beyond the margin in what decides; None if it was not measured.
        failing: Metrics whose loss is proven and fails the comparison by proof.
        reason: The grounds, in one or two sentences.
    """

    answer: Answer
    proof: Answer
    word: Word
    probability: float | None
    failing: tuple[str, ...]
    reason: str


def verdict(
    deltas: dict[str, MetricDelta],
    decided_by: tuple[str, ...],
    options: Options,
    *,
    same: bool,
    unjudged: Sequence[str] = (),
) -> Verdict:
    """Decide a comparison.

    Definition: docs/definitions/comparisons.md#overall-answer.

    Args:
        deltas: Differences by metric.
        decided_by: The deciding metrics.
        options: Options of the comparison.
        same: Whether all outputs are the same.
        unjudged: One sentence for each run that was not judged, with the reason.
    """
    deciding = {name: deltas[name] for name in decided_by}
    others = [
        name
        for name, one in deltas.items()
        if name not in deciding
        and one.same_as is None
        and one.answer == "fail"
        and one.p_holm is not None
        and one.p_holm <= 1 - options.level
    ]
    failing = [*(name for name, one in deciding.items() if one.answer == "fail"), *others]
    proof = "fail" if failing else overall([one.answer for one in deciding.values()])
    by_policy = [options.decide.answer(one.answer, one.probabilities) for one in deciding.values()]
    known = [one.probability for one in deciding.values() if one.probability is not None]
    probability = max(known, default=None)
    return Verdict(
        "fail" if others else overall(by_policy),
        proof,
        _word(proof, deciding, probability, options.level),
        probability,
        tuple(failing),
        _reason(deltas, deciding, failing, options, proof=proof, same=same, unjudged=unjudged),
    )


def word_of(metric: str, figure: MetricDelta, level: float) -> Word:
    """The verdict that one metric alone gives, in words."""
    return _word(figure.answer, {metric: figure}, figure.probability, level)


def _word(proof: Answer, deciding: dict[str, MetricDelta], probability: float | None, level: float) -> Word:
    if proof == "fail":
        return "worse"
    if proof == "pass":
        return "better" if all(_changed(one, level, 1) for one in deciding.values()) else "not worse"
    if probability is None:
        return "not measured"
    # With missing values, the same must be likely with all of them at their worst, and at their best.
    known = [one.probabilities or (probability,) for one in deciding.values()]
    if any(min(each) > 0.5 for each in known):
        return "likely worse"
    return "likely not worse" if max(map(max, known)) <= 0.5 else "undecided"


def _reason(
    deltas: dict[str, MetricDelta],
    deciding: dict[str, MetricDelta],
    failing: Sequence[str],
    options: Options,
    *,
    proof: Answer,
    same: bool,
    unjudged: Sequence[str],
) -> str:
    """The grounds of an answer."""
    if failing:
        own = [name for name in failing if name in deciding]
        if not own:
            return _aside(failing, deciding, deltas)
        ps = [f"{p:.2g}" for name in failing if (p := deltas[name].p) is not None]
        return f"The loss of {listed(failing)} is beyond chance{f' (p {listed(ps)})' if ps else ''}."
    chance = [name for name, one in deltas.items() if one.answer == "fail" and one.same_as is None]
    aside_by_chance = ""
    if chance:
        aside_by_chance = (
            f" {listed(chance)} got worse, but no more than chance brings among {_distinct(deltas)} figures."
        )
    if same and proof == "pass":
        return f"The outputs are the same.{aside_by_chance}"
    if proof == "pass":
        return f"{_no_loss(deciding, options)}{aside_by_chance}"
    open_ = [name for name, one in deciding.items() if one.answer == "inconclusive"]
    reason = f"{listed(open_)} could be worse by more than the {options.margin:g} margin, or unchanged."
    shown = next(filter(None, (_shown(deciding[name], options.margin) for name in open_)), "")
    return " ".join([*unjudged, f"{reason}{shown}{aside_by_chance}"])


def _shown(figure: MetricDelta, margin: float) -> str:
    cases = f"{figure.n:,} cases"
    return "" if figure.shows is None else f" {can_prove(cases, figure.shows, margin, figure.shows_margin)}"


def can_prove(cases: str, shows: float, margin: float, needed: int | None) -> str:
    """Which margin so many cases can show, and how many another one takes, in a sentence."""
    takes = "more than can be asked" if needed is None else f"about {float(f'{needed:.2g}'):,.0f}"
    return f"{cases} can prove that a change loses no more than {shows:.2g}; for {margin:g} it takes {takes}."


def _aside(names: Sequence[str], deciding: dict[str, MetricDelta], deltas: dict[str, MetricDelta]) -> str:
    """Why metrics fail a comparison that do not decide it alone."""
    ps = listed([f"{deltas[name].p_holm:.2g}" for name in names])
    verb = "fails" if len(names) == 1 else "fail"
    return (
        f"{listed(names)} {verb} the comparison whatever {listed(list(deciding))} did, because the loss is "
        f"significant among all {_distinct(deltas)} metrics (p {ps} after Holm's adjustment)."
    )


def _distinct(deltas: Mapping[str, MetricDelta]) -> int:
    return sum(one.same_as is None for one in deltas.values())


def _changed(figure: MetricDelta, level: float, sign: int) -> bool:
    """Whether a metric changed significantly in the direction of a sign, 1 or -1."""
    return figure.p is not None and figure.p <= 1 - level and sign * (figure.delta or 0.0) > 0


def _no_loss(figures: dict[str, MetricDelta], options: Options) -> str:
    """Describe metrics that pass: better, slightly worse, or no detectable difference."""
    better, worse = (
        [name for name, one in figures.items() if _changed(one, options.level, sign)] for sign in (1, -1)
    )
    level = [name for name in figures if name not in {*better, *worse}]
    parts = [
        (better, "got better"),
        (worse, f"got worse, but by less than {options.margin:g}"),
        (level, f"lost less than {options.margin:g}, if anything"),
    ]
    return "; ".join(f"{listed(names)} {what}" for names, what in parts if names) + "."


def listed(names: Sequence[str]) -> str:
    """Join names as ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
