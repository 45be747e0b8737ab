"""The result of comparing two runs (docs/definitions/files.md#comparison)."""

from typing import Literal, TypedDict

import msgspec

from trivium.display import RichRepr
from trivium.errors import RegressionError
from trivium.keywords import keywords
from trivium.runs.comparing.graph_diff import GraphComparison
from trivium.runs.comparing.moved_cases import MovedCases
from trivium.runs.summary import further_cases_needed
from trivium.store.records import End
from trivium.suites.settings import About, DecideSettings, Policy
from trivium.trust.decision import DifferencePrior
from trivium.trust.distributions import Answer

Word = Literal[
    "worse", "not worse", "better", "likely worse", "likely not worse", "undecided", "not measured"
]
"""The answer of a comparison in words."""


MODEL = "posterior over cases and repeats"
WITHIN = "spread between attempts"
BETWEEN = "difference between single attempts (upper bound)"
OF_A_QUESTION = (MODEL, WITHIN, BETWEEN)
"""How the interval of a question was computed, where it is not that of the metric."""


class Statistics(TypedDict, total=False):
    """Options of a comparison that a user may give; None means the setting of head's suite.

    Attributes:
        margin: The loss that does not matter, in [0, 1]. This and the options below default to the settings
            of head's suite.
        level: Confidence level of the intervals, in (0, 1).
        resamples: Number of bootstrap resamples, at least 1.
        seed: Seed of the bootstrap, at least 0.
        policy: How the answer is made (docs/definitions/decisions.md#policy).
        about: Whether the answer is about ``these`` very cases or others ``like-these``.
    """

    margin: float | None
    level: float | None
    resamples: int | None
    seed: int | None
    policy: Policy | None
    about: About | None


takes_statistics = keywords()
"""Gives a function the keywords of :class:`Statistics`."""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a metric on a case."""

    case: str
    base: float
    head: float
    delta: float


class MetricDelta(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of one metric, head minus base, over the attempts paired by case and repeat.

    Attributes:
        delta: Mean difference over cases; None without pairs.
        ci95: Interval of the difference at the comparison's level, not always 95 %.
        p: Two-sided p-value of no difference, by the method of the interval: below 1 - level exactly if the
            interval excludes 0.
        p_holm: ``p`` adjusted for the number of metrics (Holm).
        share_positive: Share of bootstrap resamples with a difference above 0.
        mde: The smallest true difference that this number of cases detects with 80 % power.
        wins: Cases in which head is better.
        losses: Cases in which base is better.
        ties: Cases in which they are equal.
        base: Mean of base over the paired cases.
        head: Mean of head over the paired cases.
        n: Paired cases.
        pairs: Paired attempts.
        left_out: Paired attempts with a value on one side only, or with values of different methods.
        groups: Number of clusters of the paired cases.
        method: How the interval was computed.
        answer: pass, fail or inconclusive, by the interval alone.
        probability: Probability that head is worse by more than the margin; None without an interval.
        probabilities: The same; with missing values two of them, with all of these at their worst and at
            their best. Empty without an interval.
        needs_cases: Further cases that would settle it with 80 % probability if the true difference equals
            the estimate; 0 if it is settled, None without an interval or if more than 10,000 are needed.
        needs_groups: Number of groups (clusters) of these cases.
        shows: The least margin of which this many cases show, with 80 % probability, that an unchanged agent
            did not lose more; None if the answer is settled or without an interval.
        shows_margin: About how many cases in all show the comparison's margin so; None also if there is no
            practicable number.
        same_as: The metric with the same values in every case on both sides, of which this is a copy; None
            for a metric with values of its own (docs/definitions/comparisons.md#same-values).
        worst: The cases that lost most.
        tier: text, judge, trace or composite.
        missing: Paired attempts with a missing value on a side; the answer holds for every value that it
            could have.
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
    probability: float | None = None
    probabilities: tuple[float, ...] = ()
    needs_cases: int | None
    needs_groups: int | None = None
    shows: float | None = None
    shows_margin: int | None = None
    same_as: str | None = None
    worst: tuple[Move, ...]
    tier: str | None = None
    missing: int = 0


class ComparedSlice(msgspec.Struct, frozen=True, kw_only=True):
    """The differences over the cases with one value of a key.

    Attributes:
        value: The value, as text.
        cases: Number of paired cases.
        metrics: The deciding metrics; ``p_holm`` is adjusted for the number of slices.
    """

    value: str
    cases: int
    metrics: dict[str, MetricDelta]

    def change(self, name: str, *, level: float) -> Literal["worse", "better"] | None:
        """Say how a metric changed; None if the change may be chance, given the number of slices.

        Args:
            name: The metric.
            level: Confidence level of the comparison, in (0, 1).
        """
        one = self.metrics.get(name)
        if one is None or one.p_holm is None or one.delta is None or one.p_holm > 1 - level:
            return None
        return "worse" if one.delta < 0 else "better"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one of the two questions of a comparison (docs/definitions/decisions.md#two-questions).

    Attributes:
        about: ``these``: would head do worse if both ran on these very cases again? ``like-these``: would it
            do worse on other cases of the kind?
        delta: Difference of the metric that decides, head minus base.
        ci95: Its interval at the comparison's level.
        probability: Probability that head is worse by more than the margin.
        probabilities: The same; with missing values two of them, at their worst and at their best.
        verdict: The answer in words.
        method: How the interval was computed.
    """

    about: About
    delta: float | None
    ci95: tuple[float, float] | None
    probability: float | None
    probabilities: tuple[float, ...] = ()
    verdict: Word
    method: str | None


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Further attempts of one side.

    Attributes:
        attempts: Their number.
        failed: How many of them failed.
        cost_usd: What agent and judges cost in USD; None if no cost is known.
        tokens: Tokens of agent and judges; None if none are reported.
    """

    attempts: int = 0
    failed: int = 0
    cost_usd: float | None = None
    tokens: int | None = None


class Confirmed(msgspec.Struct, frozen=True, kw_only=True):
    """The further attempts by which two versions were compared.

    Definition: docs/definitions/decisions.md#confirm.

    Attributes:
        base: Those of base.
        head: Those of head.
        runs: Ids of the runs that hold them.
        end: Why no further ones were made; None if the asking broke off.
    """

    base: Calls
    head: Calls
    runs: tuple[str, ...]
    end: End | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What stays open although calls were made."""
        if self.base.attempts or not self.head.attempts:
            return ()
        why = "a case that it passed by chance looks broken (--base-agent has base asked, too)"
        return (f"only head was asked again: what base does rests on its own attempts, and {why}",)


class WrongRates(msgspec.Struct, frozen=True):
    """How often a policy decided wrongly in trials; shares of comparisons in [0, 1].

    Definition: docs/definitions/decisions.md#wrong-rates.

    Attributes:
        cases: Number of cases of the trials.
        ship: Share in which the policy passed a version that was worse by more than the margin.
        block: Share in which it failed a version that was not.
        undecided: Share that it left undecided.
        losses: Share in which the version was worse by more than the margin.
    """

    cases: int
    ship: float
    block: float
    undecided: float
    losses: float = 0.32


class AnotherUser(msgspec.Struct, frozen=True, kw_only=True):
    """How much the difference of two runs depends on the model that plays the users.

    Definition: docs/definitions/conversations.md#another-user.

    Attributes:
        metric: The metric that decides.
        users: Mean difference with each user model, over the cases that both runs have with each of them.
        delta: Mean of these differences.
        deviation: Standard deviation of the difference between user models, but for what the sample of cases
            adds; 0 if its square is estimated below 0. None with one group.
        p: p-value of no difference between the user models; None if there are too few groups.
        larger: Whether user models differ beyond chance (p at most 1 - level), and ``deviation`` is larger
            than ``delta``: with another user model the answer could be another.
        cases: Number of cases; one that was held with two user models counts once.
        groups: Number of their groups.
    """

    metric: str
    users: dict[str, float]
    delta: float
    deviation: float | None
    p: float | None
    larger: bool
    cases: int
    groups: int


class Comparison(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing two runs.

    Attributes:
        base: Id of the baseline run.
        head: Id of the candidate run.
        suite: Name of the head's suite.
        answer: pass, fail or inconclusive, by the policy. It fails whatever the policy if a metric that does
            not decide fails and its loss is significant after adjustment (``p_holm``).
        proof: What would be the answer by proof alone.
        verdict: The answer in words: worse, not worse or better where the interval proves it, else what is
            likely; undecided if missing values could change what is likely.
        probability: Probability that what decides is worse by more than the margin; None if unknown.
        decide: The policy, and what wrong decisions cost.
        prior: What was known of the difference beforehand.
        failing: Metrics whose loss is proven and fails the comparison by proof: those that decide, and
            others whose loss is significant after adjustment.
        reason: The grounds of the answer, in a sentence.
        decided_by: What decides: ``decide.by``, else the pass rate, else the composite, else all metrics.
        metrics: Every metric that both runs have.
        only_base: Cases that only base has attempts of.
        only_head: Cases that only head has attempts of.
        unpaired: Number of attempts without a counterpart, by run.
        moved: The cases that changed most in ``moves_of``.
        moves: The same cases with their values.
        moves_of: The metric by which ``moved`` is ordered.
        unchanged: Whether all outputs are the same.
        margin: The loss that does not matter.
        level: Confidence level of the intervals.
        resamples: Number of bootstrap resamples.
        seed: Seed of the bootstrap.
        warnings: Reservations that change how to read the numbers.
        moved_cases: All cases whose pass rate, composite or metric with a gate changed, most changed first.
        graphs: Changes of the process graphs, if they were compared.
        missing: By run and metric, the number of scores missing because of an error or an unavailable judge;
            ``attempts`` counts missing attempts. Empty if nothing is missing.
        cost_usd: What each run cost in USD (its agent, as far as that reports it, and its judges), by
            ``base`` and ``head``; without a run of which no cost is known.
        slices: By key, the differences of the cases with each value, largest loss first. They never decide
            the answer.
        confirmed: The further attempts that were made to decide it; None without any.
        questions: The answers about these very cases and about cases like these, of which ``decide.about``
            decides; empty if the outputs are the same, or head stopped when it was decided.
        wrong: How often the policy was wrong in trials with about as many cases; None if it was not tried
            so: few cases, other costs, further attempts, about these very cases.
        versions: The name of each run's version, by ``base`` and ``head``, if it was given one.
        another_user: How much the difference that decides depends on who plays the users; None unless both
            runs were held with several user models.
    """

    base: str
    head: str
    suite: str
    answer: Answer
    proof: Answer
    verdict: Word
    probability: float | None
    decide: DecideSettings
    prior: DifferencePrior
    failing: tuple[str, ...] = ()
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
    moved_cases: MovedCases = MovedCases()
    graphs: GraphComparison | None = None
    missing: dict[str, dict[str, int]] = {}
    cost_usd: dict[str, float] = {}
    slices: dict[str, tuple[ComparedSlice, ...]] = {}
    confirmed: Confirmed | None = None
    questions: tuple[Question, ...] = ()
    wrong: WrongRates | None = None
    versions: dict[str, str] = {}
    another_user: AnotherUser | None = None

    @property
    def slices_of(self) -> str:
        """The metric that orders the slices: the pass rate if it decides, else the first deciding metric."""
        return "pass_rate" if "pass_rate" in self.decided_by else self.decided_by[0]

    def require_no_regression(self) -> None:
        """Raise unless the answer is pass.

        Raises:
            RegressionError: With the intervals and the cases that lost most.
        """
        if self.answer != "pass":
            raise RegressionError(self._regression_report())

    def _regression_report(self) -> str:
        odds = "" if self.probability is None else f" (a loss beyond {self.margin:g}: {self.probability:.0%})"
        lines = [f"{self.head} against {self.base}: {self.answer}, {self.verdict}{odds}. {self.reason}"]
        listed: set[str] = set()
        states = {one.case: f", {one.state}" * bool(one.state) for one in self.moved_cases.each_change()}
        for name, figure in self.metrics.items():
            if figure.same_as is not None:
                continue
            if figure.answer == "fail" or (name in self.decided_by and figure.answer == "inconclusive"):
                lines.append(f"  {name}: {_sentence(figure)}")
                lines += [
                    f"    {move.case}: {move.base:.3f} → {move.head:.3f} ({move.delta:+.3f})"
                    f"{states.get(move.case, '')}"
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
