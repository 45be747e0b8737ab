"""Decides the comparison of a run with a stored one, group after group.

Definition: docs/definitions/comparisons.md#until-decided.

The run asks cases in random order until the comparison is decided.

The comparison of one metric passes when the mean difference over cases, head minus base, surely lies above
-margin, and fails when it surely lies below 0, as in a comparison of fixed size. Each of the two has a test
(``trust.sequential_mean``) that bets once a group on (difference + 1) / 2, which lies in [0, 1]: limit
(1 - margin) / 2 for the pass, 1/2 for the failure. A group's stake is in proportion to its cases.

Each answer is wrong with probability at most (1 - level) / 2, at whatever case the run stops, so with both at
most 1 - level of the decisions are wrong: 5 % by default. (A pass is wrong only at or below -margin, a
failure only at or above 0. Half of the error for each is what makes the answers agree with the two-sided
interval that is shown.) The first answer stays.

With policy ``balanced`` it also stops, from 20 cases in 10 groups on, when a loss beyond the margin is
probable by less than 5 % or by more than 95 %: the policy decides by what is likely anyhow. A probability
that allows for what was known beforehand does not depend on when one looks; how often the answer is wrong
with all looks in it is measured by ``benchmarks/decisions.py``.

Missing scores count as in a comparison of fixed size: it passes only if it also passes with head's at their
lowest and base's at their highest, and fails only if it also fails the other way round.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import ComparisonError, InputError, Problem, suggest
from trivium.metrics.metric import Metric
from trivium.metrics.registry import CASE_FIGURES
from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.provenance import measuring
from trivium.runs.run import Run
from trivium.runs.until_decided.order import GroupOrder, tags_of
from trivium.store.records import RunKind, StoppedFor
from trivium.store.store import Store
from trivium.suites.settings import Policy, Settings
from trivium.suites.suite import Suite
from trivium.trust.decision import loss_of_differences
from trivium.trust.sequential_mean import METHOD, MeanBetweenEnds

if TYPE_CHECKING:  # every run imports this module, few compare: comparing takes SciPy, which imports slowly
    from trivium.runs.comparing.comparison import MetricDelta
    from trivium.runs.comparing.decision import Options
    from trivium.runs.comparing.pairing import PairedScores, ScoredRun
    from trivium.trust.distributions import Answer

Floats = npt.NDArray[np.float64]

DOUBT = 0.05
"""Probability of being wrong at which ``balanced`` asks no further case."""

FEWEST_CASES, FEWEST_GROUPS = 20, 10
"""Before these, ``balanced`` does not stop without a proof."""


class StopWhen(NamedTuple):
    """The comparison that a run is told to stop for.

    Attributes:
        against: Id of the run to compare with.
        metric: The metric that decides; None: what decides a comparison.
    """

    against: str
    metric: str | None


class Difference:
    """Whether the mean difference of paired values lies above -margin, or below 0, group after group.

    Args:
        margin: The loss that does not matter, in [0, 1].
        level: 1 minus the probability of a wrong answer, in (0, 1).
        largest: Number of cases of the largest group, whose stake is the full one.
        policy: How the comparison will be decided.
    """

    def __init__(self, *, margin: float, level: float, largest: int, policy: Policy = "proof") -> None:
        self._margin, self._level, self._largest = margin, level, largest
        self._by_what_is_likely = policy == "balanced"
        self._known: list[Floats] = []
        self._sure = False
        self._mean = MeanBetweenEnds({"loss": (1 - margin) / 2, "none": 0.5}, level=level)
        self.answer: Answer = "inconclusive"

    def bet(
        self,
        lowest: Sequence[float] | Floats,
        highest: Sequence[float] | Floats,
        *,
        handicap: float = 0.0,
    ) -> None:
        """Bet on the differences of the cases of a group, with missing scores at their ends.

        Args:
            lowest: The least difference that each case can have, in [-1, 1]; NaN where nothing is known.
            highest: The largest.
            handicap: See :class:`~trivium.runs.until_decided.order.GroupOrder`.
        """
        low, high = np.asarray(lowest, np.float64), np.asarray(highest, np.float64)
        known = ~np.isnan(low) & ~np.isnan(high)
        if not known.any():
            return
        self._known.append(np.stack([low[known], high[known]]))
        least, most = (min(1.0, max(0.0, (float(side[known].mean()) + 1) / 2)) for side in (low, high))
        self._mean.bet(least, most, int(np.count_nonzero(known)) / self._largest, handicap=handicap)
        if self.answer == "inconclusive":
            passes, fails = self._mean.at_least("loss"), self._mean.at_most("none")
            self.answer = "pass" if passes else "fail" if fails else "inconclusive"
        # Here and not where it is asked, by the event loop while this thread bets.
        self._sure = self._by_what_is_likely and self._sure_enough()

    @property
    def decided(self) -> bool:
        """Whether the comparison has passed or failed, or the policy asks for no proof and is sure enough."""
        return self.answer != "inconclusive" or self._sure

    def _sure_enough(self) -> bool:
        cases = sum(group.shape[1] for group in self._known)
        if cases < FEWEST_CASES or len(self._known) < FEWEST_GROUPS:
            return False
        groups = np.repeat(np.arange(len(self._known)), [group.shape[1] for group in self._known])
        odds = [
            loss_of_differences(values, groups, margin=self._margin, level=self._level)
            for values in np.concatenate(self._known, axis=1)
        ]
        return max(odds) < DOUBT or min(odds) > 1 - DOUBT

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the mean difference that holds at every look; None without a value."""
        ends = self._mean.interval
        return None if ends is None else (2 * ends[0] - 1, 2 * ends[1] - 1)


def ends_of(figure: "PairedScores") -> tuple[Floats, Floats]:
    """The least and the largest difference of each case, shape (n,); NaN where nothing is known."""
    if figure.at_worst is None or figure.at_best is None:
        return figure.deltas, figure.deltas
    return figure.at_worst[1] - figure.at_worst[0], figure.at_best[1] - figure.at_best[0]


class ComparisonWith:
    """Decides the comparison of a run that is being made with a stored one.

    Args:
        stop: The stored run, and the metric that decides, if it is named.
        store: The store of both runs.
        suite: Suite of the run that is being made.
        settings: Its settings.
        metrics: Its metrics.
        kind: Its kind.

    Raises:
        InputError: If the run would not stop early; if base stopped early, is not finished, has no case of
            the suite, or lacks the metric; or if the numbers of both runs do not mean the same.
    """

    def __init__(
        self,
        stop: StopWhen,
        store: Store,
        suite: Suite,
        settings: Settings,
        *,
        metrics: Sequence[Metric],
        kind: RunKind,
    ) -> None:
        from trivium.runs.comparing.decision import deciding, differences_from
        from trivium.runs.comparing.pairing import Methods, ScoredRun

        if not settings.until_decided:
            what = (
                "against decides when a run stops that asks cases in random order: it needs until_decided "
                "(--until-decided), and an agent or a judge whose calls are saved. To compare whole runs: "
                f"trivium compare {stop.against} RUN"
            )
            raise InputError("", Problem("against", what))
        base = Run.load(stop.against, store=store)
        self._settings, self._methods = settings, Methods()
        self._base = ScoredRun.of(base, self._methods)
        scored = {name for name in self._base.values if name in self._base.scored or self._base.bounds[name]}
        ours = {*(each.name for each in metrics), "composite", "pass_rate"}
        both = sorted((ours & scored) - set(CASE_FIGURES))
        named = deciding(both, stop.metric or settings.decide.by)
        self.stopped_for = StoppedFor(against=base.id, metric=named[0] if named else "")
        known = {case.id for case in base.cases()}
        self.cases = frozenset(case.id for case in suite if case.id in known)
        """Ids of the cases that base has too; only these are asked."""
        problems = [*self._unsuited(base, suite), *_without_metric(named, ours, scored, both)]
        if not problems:
            differences = differences_from(
                base,
                kind=kind,
                provenance=measuring(metrics, settings),
                settings=settings,
                suite=suite.digest,
                cases=lambda: (case for case in suite if case.id in self.cases),
            )
            if problems := list(differences):
                problems.append("the numbers would not mean the same; name a run with the same settings")
        if problems:
            raise ComparisonError(f"against {base.id}", [Problem("", what) for what in problems])
        sizes = Counter(suite.group_of(case) for case in suite if case.id in known)
        self._difference = Difference(
            margin=settings.margin,
            level=settings.level,
            largest=max(sizes.values(), default=1),
            policy=settings.decide.policy,
        )

    def _unsuited(self, base: Run, suite: Suite) -> list[str]:
        if not self.cases:
            what = f'it is a run of suite "{base.record.suite_name}" and has no case of "{suite.name}"'
            return [f"{what}; name a run of that suite (trivium list shows them)"]
        if base.record.state != "done":
            return [f"it is not finished ({base.record.state}): finish it with --resume {base.id}"]
        if self._base.settings.until_decided:
            what = "it stopped early itself (until_decided), so that its cases are no fair sample"
            return [f"{what}; name a run that asked all of them"]
        return []

    @property
    def decided(self) -> bool:
        """Whether the comparison has passed or failed."""
        return self._difference.decided

    def take(self, cases: Sequence[Sequence[AnyEvaluation]], *, cluster: str, handicap: float) -> None:
        """Bet on the cases of one group."""
        from trivium.runs.comparing.pairing import Pairing, ScoredRun, repeats_of

        evaluations = [(number, each) for number, case in enumerate(cases) for each in case]
        head = ScoredRun(self._settings, evaluations, self._methods)
        alone = head.lacking(self._base)
        absent = alone[repeats_of(alone) < self._base.settings.repeats]
        clusters = dict.fromkeys(head.names, cluster)
        pairing = Pairing(self._base, head, clusters=clusters, absent=absent)
        if self.stopped_for.metric in pairing.names:
            ends = ends_of(pairing.reduced(self.stopped_for.metric, same_method=True))
            self._difference.bet(*ends, handicap=handicap)


def _without_metric(
    deciding: Sequence[str], ours: set[str], theirs: set[str], both: Sequence[str]
) -> list[str]:
    """Say why no metric of both runs decides a comparison, if so."""
    from trivium.runs.comparing.decision import listed

    if len(deciding) > 1:
        return [f"{listed(both)} decide a comparison together: name one with against_metric"]
    if not deciding:
        return ["the runs have no metric in common"]
    (metric,) = deciding
    if metric in CASE_FIGURES:
        return [f"{metric} is computed when the run has ended, and cannot decide when it ends"]
    for names, word in ((ours, "this run computes"), (theirs, "it has")):
        if metric not in names:
            common = f"both have {listed(both)}" if both else "they have none in common"
            return [f'{word} no metric "{metric}".{suggest(metric, both)} {common}']
    return []


class StoppedComparison:
    """The comparison for which a stored run stopped, from its paired scores.

    Args:
        base: The run that it was compared with.
        head: The run.
        scored: Scores of head.
        figure: Paired scores of the metric.
        options: Margin and level.
        metric: The metric.

    Attributes:
        interval: See :attr:`Difference.interval`.
    """

    def __init__(
        self,
        base: Run,
        head: Run,
        scored: "ScoredRun",
        figure: "PairedScores",
        options: "Options",
        *,
        metric: str,
    ) -> None:
        from trivium.runs.comparing.pairing import ABSENT, code_of

        self.metric = metric
        known = {case.id for case in base.cases()}
        names = head.store.groups(head.record.suite, scored.settings.group)
        shared = [each for each in zip(names, head.cases(), strict=True) if each[1].id in known]
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for cluster, case in shared:
            groups[cluster].append(case.id)
        self._asked, self._shared = 0, sum(map(len, groups.values()))
        largest = max(map(len, groups.values()), default=1)
        policy = scored.settings.decide.policy
        self._difference = Difference(
            margin=options.margin, level=options.level, largest=largest, policy=policy
        )
        lowest, highest = ends_of(figure)
        at = {case: place for place, case in enumerate(figure.cases)}
        repeats, numbers = range(scored.settings.repeats), scored.case_numbers
        order = GroupOrder(head.id, tags_of(shared))
        for name, handicap in zip(order.names, order.handicaps, strict=True):
            cases = groups[name]
            codes = [code_of(numbers.get(case, -1), repeat) for case in cases for repeat in repeats]
            if ABSENT in scored.find(np.array(codes, np.int64)):
                break  # of an interrupted run: what lies behind is there because it was fast
            self._asked += len(cases)
            places = [at[case] for case in cases if case in at]
            self._difference.bet(lowest[places], highest[places], handicap=handicap)
        self.interval = self._difference.interval

    @property
    def sentence(self) -> str:
        """What was asked, and which intervals hold although the run stopped where it did."""
        end = "until this comparison was decided" if self._difference.decided else "and it is not decided"
        return (
            f"{self._asked:,} of {self._shared:,} cases were asked, in random order, {end}. The interval of "
            f"{self.metric} holds at every look ({METHOD.split(',')[0]}); all others suppose that the number "
            "of cases was set beforehand"
        )

    def on(self, figure: "MetricDelta") -> "MetricDelta":
        """The difference of the metric, with the answer and the interval that hold at every look."""
        return msgspec.structs.replace(
            figure,
            answer=self._difference.answer,
            ci95=self.interval,
            method=None if self.interval is None else METHOD,
            p=None,
            p_holm=None,
            share_positive=None,
            mde=None,
            needs_cases=0,
            needs_groups=0,
            shows=None,
            shows_margin=None,
        )
