"""The two questions of a comparison: about these very cases, and about cases like these.

Definition: docs/definitions/decisions.md#two-questions.
"""

from collections.abc import Callable
from math import erfc, sqrt
from typing import NamedTuple, Self, get_args

import msgspec
import numpy as np

from trivium.runs.comparing.comparison import BETWEEN, MODEL, WITHIN, MetricDelta, Question
from trivium.runs.comparing.decision import Options, word_of
from trivium.runs.comparing.earlier_runs import CaseCounts
from trivium.runs.comparing.pairing import PairedScores
from trivium.suites.settings import About
from trivium.trust.case_model import NormalMixture, Tally, case_posterior, error_on_these_cases
from trivium.trust.decision import DifferencePrior, loss_beyond
from trivium.trust.distributions import Answer, normal_critical_value
from trivium.values import record_of


class Questions(NamedTuple):
    """What is known of each question.

    Attributes:
        told: Both, as the comparison shows them.
        deciding: The difference by the question that decides.
    """

    told: tuple[Question, ...]
    deciding: MetricDelta


def questions(
    metric: str,
    figure: PairedScores,
    delta: MetricDelta,
    counts: CaseCounts,
    options: Options,
    *,
    confirmed: bool,
) -> Questions | None:
    """Answer both questions by one metric.

    Args:
        metric: The metric that decides.
        figure: Its paired values.
        delta: Its difference, as an answer about cases like these.
        counts: Its values by case, in all attempts of both versions.
        options: Options of the comparison.
        confirmed: Whether attempts were made because of what the first ones showed. Then both answers are
            those of the model that allows for it.

    Returns:
        None if no case has attempts on both sides, or values lie outside [0, 1].
    """
    base, head = counts.base, counts.head
    both = (base.attempts > 0) & (head.attempts > 0)
    if delta.delta is None or not both.any() or not _within_the_range(base, head):
        return None
    shifts = _shifts(figure)
    found: dict[About, MetricDelta] = {"like-these": delta}
    if confirmed:
        known = case_posterior(base, head, counts.groups)
        rates = float(known.rates[0].mean()), float(known.rates[1].mean())
        like = _Known.by_model(known.like_these, rates, options.level)
        found["like-these"] = like.answers(delta, shifts, options.margin)
        these = _Known.by_model(known.these, rates, options.level)
    else:
        these = _Known.by_spread(base, head, options.level, options.prior_for(metric))
    found["these"] = these.answers(delta, shifts, options.margin)
    told = tuple(
        record_of(Question, one, about=about, verdict=word_of(metric, one, options.level))
        for about, one in ((each, found[each]) for each in get_args(About))
    )
    return Questions(told, found[options.decide.about])


def _within_the_range(*sides: Tally) -> bool:
    """Whether all values are in [0, 1], to rounding."""
    return all(
        bool(np.all((each >= 0) & (each <= most + 1e-9)))
        for side in sides
        for each, most in ((side.sums, side.attempts), (side.squares, side.sums))
    )


def _shifts(figure: PairedScores) -> tuple[float, ...]:
    """By how much missing values move the mean difference at their worst, and at their best."""
    if figure.at_worst is None or figure.at_best is None:
        return (0.0,)
    present = float(np.nanmean(figure.deltas))
    return tuple(float(np.nanmean(side[1] - side[0])) - present for side in (figure.at_worst, figure.at_best))


class _Known(NamedTuple):
    """The distribution of a difference.

    Attributes:
        rates: Mean of base, and of head.
        delta: Their difference.
        interval: Its interval at the level of the comparison.
        p: Two-sided p-value of no difference.
        below: Probability that the difference lies below a value.
        method: How the interval was computed.
    """

    rates: tuple[float, float]
    delta: float
    interval: tuple[float, float]
    p: float
    below: Callable[[float], float]
    method: str

    @classmethod
    def by_model(cls, mixture: NormalMixture, rates: tuple[float, float], level: float) -> Self:
        """What the model of all attempts knows."""
        interval = mixture.quantile((1 - level) / 2), mixture.quantile((1 + level) / 2)
        p = min(1.0, 2 * min(1 - mixture.below(0.0), mixture.up_to(0.0)))
        return cls(rates, mixture.mean, interval, p, mixture.below, MODEL)

    @classmethod
    def by_spread(cls, base: Tally, head: Tally, level: float, prior: DifferencePrior) -> Self:
        """What the spread between attempts tells of these very cases."""
        both = (base.attempts > 0) & (head.attempts > 0)
        left, right = (side.sums[both] / side.attempts[both] for side in (base, head))
        delta, error = float((right - left).mean()), error_on_these_cases(base, head)
        reach = normal_critical_value(level) * error
        repeated = bool((base.attempts > 1).any() or (head.attempts > 1).any())
        return cls(
            (float(left.mean()), float(right.mean())),
            delta,
            (max(-1.0, delta - reach), min(1.0, delta + reach)),
            erfc(abs(delta) / error / sqrt(2)),
            lambda value: loss_beyond(delta, error, value, prior),
            WITHIN if repeated else BETWEEN,
        )

    def answers(self, figure: MetricDelta, shifts: tuple[float, ...], margin: float) -> MetricDelta:
        """The figure with this difference in place of its own.

        Args:
            figure: The difference of the metric.
            shifts: By how much missing values move the difference, at their worst and at their best.
            margin: The loss that does not matter.
        """
        answer: Answer = "inconclusive"
        if self.interval[0] + shifts[0] > -margin:
            answer = "pass"
        elif self.interval[1] + shifts[-1] < 0:
            answer = "fail"
        return msgspec.structs.replace(
            figure,
            base=self.rates[0],
            head=self.rates[1],
            delta=self.delta,
            ci95=self.interval,
            p=self.p,
            p_holm=None,
            share_positive=None,
            mde=None,
            answer=answer,
            probability=self.below(-margin),
            probabilities=tuple(self.below(-margin - shift) for shift in shifts),
            needs_cases=0,
            needs_groups=0,
            shows=None,
            shows_margin=None,
            method=self.method,
        )
