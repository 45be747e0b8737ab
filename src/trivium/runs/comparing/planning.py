"""Plans the size of a comparison: how many cases and repeats find a difference, from the runs there are."""

from collections.abc import Sequence
from math import ceil, isnan, nan, sqrt

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.display import RichRepr
from trivium.errors import ComparisonError, Problem, suggest
from trivium.runs.comparing.compare import clusters_of
from trivium.runs.comparing.decision import check_ranges, incomparabilities
from trivium.runs.comparing.pairing import ABSENT, Methods, ScoredRun, numbers_of, repeats_of
from trivium.runs.run import Run
from trivium.trust.clustered import FEW_GROUPS, ClusteredMean
from trivium.trust.sample_size import (
    detectable_difference,
    groups_to_detect,
    groups_to_show,
    shown_margin,
    with_variance,
)
from trivium.trust.variance_components import (
    VarianceComponents,
    detectable,
    groups_by_t,
    inflation_of_pilot,
    variance_components,
)

REPEATS = (1, 2, 3, 5, 10)
"""Numbers of repeats that a plan weighs against one another."""

PILOT_SHARE = 0.8
"""Probability with which the needed cases lie in the range of a plan, as far as the pilot is small."""


RESERVE = 0.15
"""Share of the missing power that numbers are computed for besides, because the variance is estimated."""


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """A number of repeats, and what it takes with it.

    Attributes:
        repeats: Repeats of each case.
        groups: Groups needed in all; None if there is no practicable number.
        cases: Cases needed in all, or None.
        cases_range: Cases needed if the pilot's variance errs: they lie between with probability 0.8.
        attempts: Attempts of one run with these cases, or None.
        usd: What one run would cost in USD; None if no cost is known.
        detects: The least true difference that the suite's present cases find with these repeats; None with
            fewer than two groups.
    """

    repeats: int
    groups: int | None
    cases: int | None
    cases_range: tuple[int, int] | None
    attempts: int | None
    usd: float | None
    detects: float | None


class ComparisonPlan(RichRepr, msgspec.Struct, frozen=True, kw_only=True):
    """How large a comparison must be to find a difference.

    Attributes:
        suite: Name of the suite.
        metric: The metric whose mean is compared.
        detect: The true difference to be found, in (0, 1].
        level: Level of the interval that must leave 0 out, in (0, 1).
        power: Probability of finding the difference, in (0.5, 1).
        pilot: Ids of the runs that the variance was taken from: two that were compared, or one.
        paired: Whether the pilot is two runs. From one run the plan can only assume that a new version
            answers every case independently of the old one, which usually asks for too much.
        cases: Cases of the suite that the pilot has values of.
        groups: Their groups.
        components: Variance of the difference, by where it arises.
        designs: One for each number of repeats, the fewest first.
        repeats: Repeats of each case that the suite has.
        margin: The suite's margin, the loss that does not matter.
        shows: The least margin that the present cases show with the suite's repeats, at the power of the
            plan, where an agent is unchanged; None with fewer than two groups.
        shows_margin: Cases that show the suite's margin so, or None.
        usd_per_attempt: Mean cost of an attempt and its judgements in USD, or None.
        warnings: What makes these numbers less certain.
    """

    suite: str
    metric: str
    detect: float
    level: float
    power: float
    pilot: tuple[str, ...]
    paired: bool
    cases: int
    groups: int
    components: VarianceComponents
    designs: tuple[Design, ...]
    repeats: int
    margin: float
    shows: float | None
    shows_margin: int | None
    usd_per_attempt: float | None = None
    warnings: tuple[str, ...] = ()


def plan(
    pilot: Run | tuple[Run, Run],
    *,
    detect: float,
    metric: str | None = None,
    level: float | None = None,
    power: float = 0.8,
) -> ComparisonPlan:
    """Say how many cases and repeats a comparison needs to find a difference.

    Definition: docs/definitions/comparisons.md#plan.

    The variance of the difference is split into that between groups, between cases and between repeats
    (:mod:`trivium.trust.variance_components`), as two runs of the suite have it.

    Args:
        pilot: Two comparable runs of the suite, or one.
        detect: The true difference of the means that is to be found, in (0, 1].
        metric: A metric, ``pass_rate`` or ``composite``; by default the pass rate if cases have verdicts, or
            else the composite.
        level: Level of the interval, in (0, 1); by default the suite's.
        power: Probability of finding the difference, in (0.5, 1).

    Raises:
        ComparisonError: If the runs are not comparable, lack the metric, have fewer than two groups, or an
            argument is out of its range.
    """
    runs = (pilot,) if isinstance(pilot, Run) else pilot
    head = runs[-1]
    settings = head.record.settings
    level = settings.level if level is None else level
    _check(detect=detect, level=level, power=power)
    if len(runs) == 2 and (unlike := list(incomparabilities(*runs))):
        raise ComparisonError(f"{runs[0].id} and {head.id}", [Problem("", what) for what in unlike])
    methods = Methods()
    sides = [ScoredRun.of(run, methods) for run in runs]
    metric = _metric(metric, sides)
    pilot_values = _values(head, sides, metric)
    if settings.reduce != "mean":
        pilot_values = pilot_values.reduced()
    components = pilot_values.components(metric)
    if len(runs) == 1:
        components = _doubled(components)
    usd = _usd_per_attempt(head)
    planner = _Planner(
        values=pilot_values if len(runs) == 2 else pilot_values.apart(),
        paired=len(runs) == 2,
        components=components,
        detect=detect,
        level=level,
        power=power + RESERVE * (1 - power),
        usd=usd,
    )
    shows, shows_margin = planner.margins(settings.repeats, settings.margin, power=power)
    repeats = REPEATS if components.between_repeats is not None else (settings.repeats,)
    return ComparisonPlan(
        suite=head.record.suite_name,
        metric=metric,
        detect=detect,
        level=level,
        power=power,
        pilot=tuple(run.id for run in runs),
        paired=len(runs) == 2,
        cases=components.cases,
        groups=components.groups,
        components=components,
        designs=tuple(planner.design(number) for number in repeats),
        repeats=settings.repeats,
        margin=settings.margin,
        shows=shows,
        shows_margin=shows_margin,
        usd_per_attempt=usd,
        warnings=tuple(_warnings(components, paired=len(runs) == 2, reduce=settings.reduce)),
    )


def _check(*, detect: float, level: float, power: float) -> None:
    rules = (
        ("detect", detect, "above 0, at most 1", 0 < detect <= 1),
        ("level", level, "between 0 and 1", 0 < level < 1),
        ("power", power, "between 0.5 and 1", 0.5 < power < 1),
    )
    check_ranges(rules)


def _metric(name: str | None, sides: Sequence[ScoredRun]) -> str:
    """The metric to plan for: the given one, or pass rate or composite."""
    known = [each for each in sides[-1].scored if all(each in side.scored for side in sides)]
    if name is None:
        chosen = next((each for each in ("pass_rate", "composite") if each in known), None)
        if chosen is None:
            raise ComparisonError("metric", "the pilot has neither verdicts nor a composite")
        return chosen
    if name not in known:
        raise ComparisonError("metric", f'the pilot has no values of "{name}".{suggest(name, known)}')
    return name


class _Values(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Values of a pilot, with the codes of their cases and groups, each of shape (n,)."""

    y: npt.NDArray[np.float64]
    cases: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]

    def reduced(self, repeats: int | None = None) -> "_Values":
        """The mean of each case, or of its first repeats."""
        chosen = np.ones(self.y.size, np.bool_)
        if repeats is not None:
            order = np.argsort(self.cases, kind="stable")
            _, starts = np.unique(self.cases[order], return_index=True)
            rank = np.empty(self.y.size, np.int64)
            rank[order] = np.arange(self.y.size) - np.repeat(starts, np.diff([*starts, self.y.size]))
            chosen = rank < repeats
        y, cases = self.y[chosen], self.cases[chosen]
        names, first, codes = np.unique(cases, return_index=True, return_inverse=True)
        return _Values(
            y=np.bincount(codes, y) / np.bincount(codes), cases=names, groups=self.groups[chosen][first]
        )

    def apart(self) -> "_Values":
        """The differences of values of different cases."""
        return msgspec.structs.replace(self, y=self.y - np.roll(self.y, self.y.size // 2))

    def components(self, metric: str) -> VarianceComponents:
        """Their variance by where it arises."""
        try:
            return variance_components(self.y, self.cases, self.groups)
        except ValueError as error:
            raise ComparisonError("pilot", f"{self.y.size:,} values of {metric}: {error}") from error

    def clustered(self, repeats: int) -> ClusteredMean | None:
        """The differences if every case had so many repeats, at most those there are."""
        found = self.reduced(repeats)
        return ClusteredMean.of(found.y, found.groups, kind="difference")


def _values(head: Run, sides: Sequence[ScoredRun], metric: str) -> _Values:
    """Differences of two runs by case and repeat, or the values of a single run."""
    newer = sides[-1]
    y = np.asarray(newer.values[metric])
    if len(sides) == 2:
        rows = sides[0].find(newer.codes)
        y = y - np.where(rows == ABSENT, nan, np.asarray(sides[0].values[metric])[rows])
    numbers, names = numbers_of(newer.codes), newer.case_numbers.names
    keys = [(names[number], repeat) for number, repeat in zip(numbers, repeats_of(newer.codes), strict=True)]
    order = [row for row in sorted(range(len(keys)), key=keys.__getitem__) if not isnan(y[row])]
    clusters = dict(clusters_of(head, newer))
    codes = {name: code for code, name in enumerate(dict.fromkeys(clusters.values()))}
    return _Values(
        y=y[order],
        cases=(np.diff(numbers[order], prepend=-1) != 0).cumsum() - 1,
        groups=np.array([codes[clusters[keys[row][0]]] for row in order], np.int64),
    )


def _doubled(components: VarianceComponents) -> VarianceComponents:
    """The variance of the difference of two runs whose answers are independent."""
    return msgspec.structs.replace(
        components,
        between_groups=2 * components.between_groups,
        between_cases=2 * components.between_cases,
        between_repeats=None if components.between_repeats is None else 2 * components.between_repeats,
    )


class _Planner(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Finds the design for a number of repeats.

    Attributes:
        values: Differences of two runs, or of a single run's own cases.
        paired: Whether they are of two runs, whose own interval is planned for; else a t interval is.
        components: Variance of the difference.
        detect: The difference to be found.
        level: Level of the interval.
        power: Power that the numbers are computed for.
        usd: Cost of an attempt in USD, or None.
    """

    values: _Values
    paired: bool
    components: VarianceComponents
    detect: float
    level: float
    power: float
    usd: float | None

    def design(self, repeats: int) -> Design:
        """Cases, attempts and cost with this many repeats."""
        pilot = self.components.groups
        per_group = self.components.cases / pilot
        variance = self.components.of_mean(pilot, cases_per_group=per_group, repeats=repeats)
        options = {"level": self.level, "power": self.power}
        if not self.paired:
            groups = groups_by_t(
                self.components, self.detect, cases_per_group=per_group, repeats=repeats, **options
            )
            detects: float | None = detectable(sqrt(variance), pilot, **options)
        else:
            clustered = self.values.clustered(repeats)
            if clustered is None:
                groups = detects = None
            else:
                like = with_variance(clustered, variance)
                groups = groups_to_detect(like, self.detect, **options)
                detects = detectable_difference(like, **options)
        cases = None if groups is None else ceil(groups * per_group)
        attempts = None if cases is None else cases * repeats
        least, most = inflation_of_pilot(pilot, share=PILOT_SHARE)
        return Design(
            repeats=repeats,
            groups=groups,
            cases=cases,
            cases_range=None if cases is None else (round(cases * least), round(cases * most)),
            attempts=attempts,
            usd=None if self.usd is None or attempts is None else self.usd * attempts,
            detects=detects,
        )

    def margins(self, repeats: int, margin: float, *, power: float) -> tuple[float | None, int | None]:
        """The least margin that the present cases show, and the cases that show this one."""
        groups, cases = self.components.groups, self.components.cases
        per_group = cases / groups
        variance = self.components.of_mean(groups, cases_per_group=per_group, repeats=repeats)
        if (clustered := self.values.clustered(repeats)) is None:
            return None, None
        like = with_variance(clustered, variance)
        needed = groups_to_show(like, margin, level=self.level, power=power)
        return shown_margin(like, level=self.level, power=power), needed and ceil(needed * per_group)


def _usd_per_attempt(run: Run) -> float | None:
    """Mean cost of an attempt of a run and of its judgements in USD; None if no cost is known."""
    summary = run.summary()
    agent, judges = summary.agent, summary.spent
    of_agent = agent.cost_usd / agent.with_cost if agent and agent.cost_usd is not None else None
    of_judges = judges.cost_usd / summary.attempts if judges and judges.cost_usd is not None else None
    known = [cost for cost in (of_agent, of_judges) if cost is not None]
    return sum(known) if known else None


def _warnings(components: VarianceComponents, *, paired: bool, reduce: str) -> list[str]:
    found = []
    if not paired:
        found.append(
            "one run is known: the numbers assume that a new version answers each case independently of the "
            "old one, and are usually too large; a second run of the suite gives the real ones"
        )
    if components.groups < FEW_GROUPS:
        found.append(f"the pilot has {components.groups} groups: its variance is hardly known")
    if components.between_repeats is None:
        found.append(
            "the pilot has one attempt a case: what further repeats would save is unknown"
            if reduce == "mean"
            else f"repeats are reduced by {reduce}: what further repeats would save is unknown"
        )
    return found
