"""Chooses which item a person labels next, each with a known probability.

Definition: docs/definitions/agreement.md#active-draw.

Labels teach most where the judge errs most, but labels of the hardest items alone say nothing about the rest.
Here each item that has no label yet has a known probability of being the next one, of which at least a fifth
is equal for all. It depends on the answers so far only, so estimates stay unbiased at any stopping point
(``active_inference``), whoever answers and in whatever order.

The uniform draws walk through one random order of all items and skip those that were drawn already. So all
items up to the last uniform draw are drawn, and they are a simple random sample (``Sampling.walked``): what
needs equal probabilities, such as a certificate, uses these labels.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from numpy.random import PCG64, SeedSequence

from trivium.errors import TrustError
from trivium.trust.arrays import Floats, Ints, check_finite, floats

UNIFORM_SHARE = 0.2
"""Smallest share of the probability that is equal for all items."""

FEWEST = 20
"""Answers before the probabilities begin to differ."""

DOUBT = 1.0
"""Standard errors that are taken off the estimated slope: activity grows only as labels show that it pays."""

STEEPEST = 6.0
"""Largest slope of log(squared error) over the ranks of uncertainty, which run from -1 to 1."""

_PRIOR_SD = 2.0
_STEPS = 30


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """One item that a person was asked to label.

    Definition: docs/definitions/agreement.md#active-draw.

    Attributes:
        item: Position of the item in the population, 0 to population - 1.
        probability: Probability, just before the draw, that this item would be drawn; in (0, 1].
        how: Whether the uniform share or the active one chose it.
    """

    item: int
    probability: float
    how: Literal["uniform", "active"]


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """The draws so far, in order: all that is needed to continue (plain JSON by ``msgspec.to_builtins``).

    Definition: docs/definitions/agreement.md#active-draw.

    Attributes:
        seed: Seed of all draws, at least 0.
        population: Number of items.
        draws: One for each item asked, in the order in which they were drawn.
    """

    seed: int
    population: int
    draws: tuple[Draw, ...] = ()

    def __post_init__(self) -> None:
        drawn = [draw.item for draw in self.draws]
        if self.seed < 0 or self.population < 0:
            raise TrustError(
                f"seed and population must be at least 0; found {self.seed} and {self.population}"
            )
        if len(set(drawn)) != len(drawn) or not all(0 <= item < self.population for item in drawn):
            raise TrustError(
                f"each item is drawn at most once, and lies between 0 and population - 1 "
                f"({self.population - 1}); found draws of {drawn[:20]}"
            )
        for place, draw in enumerate(self.draws):
            if not 0 < draw.probability <= 1:
                raise TrustError(
                    f"draws[{place}]: probability must be above 0 and at most 1; found {draw.probability}"
                )

    def after(self, draw: Draw) -> "Sampling":
        """The same with one more draw."""
        return msgspec.structs.replace(self, draws=(*self.draws, draw))

    def walked(self) -> list[int]:
        """The drawn items that are a simple random sample of all, in random order.

        First come the draws before the probabilities began to differ, then the items of the random order up
        to the last uniform draw; those that were drawn actively before are among them. (An active item is in
        it less often by a factor of 1 - 1 / (items never drawn actively), which can be neglected.)
        """
        leading = 0
        while leading < len(self.draws) and self._is_even(leading):
            leading += 1
        first = [draw.item for draw in self.draws[:leading]]
        uniform = {draw.item for draw in self.draws[leading:] if draw.how == "uniform"}
        if not uniform:
            return first
        order = _random_order(self.seed, self.population)
        rest = order[~np.isin(order, first)]
        return [*first, *rest[: np.flatnonzero(np.isin(rest, list(uniform)))[-1] + 1].tolist()]

    def _is_even(self, place: int) -> bool:
        return abs(self.draws[place].probability * (self.population - place) - 1) < 1e-9


def next_draw(
    sampling: Sampling,
    uncertainty: npt.ArrayLike,
    predictions: npt.ArrayLike,
    answers: Mapping[int, float | None],
    *,
    uniform_share: float = UNIFORM_SHARE,
) -> Draw | None:
    """Draw the next item to be labelled; the caller keeps it with ``sampling.after(draw)``.

    Definition: docs/definitions/agreement.md#active-draw.

    The same arguments give the same draw. Answers may arrive in any order or not at all: a draw uses those
    that are there.

    Args:
        sampling: The draws so far.
        uncertainty: How unsure the judge is of each item, shape (population,), on any scale (only ranks are
            used); NaN where it is unknown, which counts as the middle.
        predictions: The judge's score of each item, shape (population,), finite.
        answers: People's score of items that were drawn; None if it cannot be told. Others are ignored.
        uniform_share: Share of the probability that is equal for all items, 0.2 to 1. With 1 every label
            counts for what needs equal probabilities, such as a certificate.

    Returns:
        None if every item has been drawn.

    Raises:
        TrustError: If an array has another length, a score is not finite, or the share is out of range.
    """
    if not UNIFORM_SHARE <= uniform_share <= 1:
        raise TrustError(f"uniform_share must lie between {UNIFORM_SHARE} and 1; found {uniform_share}")
    ranks, f = check_arrays(sampling, uncertainty, predictions)
    pool = np.ones(sampling.population, dtype=bool)
    pool[[draw.item for draw in sampling.draws]] = False
    left = np.flatnonzero(pool)
    if not left.size:
        return None
    told = [draw.item for draw in sampling.draws if answers.get(draw.item) is not None]
    y = np.array([answers[item] for item in told], dtype=np.float64)
    if not np.isfinite(y).all():
        raise TrustError("answers must be finite numbers, or None where it cannot be told")
    scores = np.exp(slope(ranks[told], f[told], y) * ranks[left] / 2)
    shares = uniform_share / left.size + (1 - uniform_share) * scores / scores.sum()
    coin, place = _uniform_numbers(sampling.seed, len(sampling.draws) + 1, 2)
    if coin < uniform_share:
        order = _random_order(sampling.seed, sampling.population)
        item = int(order[np.argmax(pool[order])])
        how: Literal["uniform", "active"] = "uniform"
    else:
        sums = np.cumsum(scores)
        item = int(left[min(left.size - 1, int(np.searchsorted(sums, place * sums[-1], side="right")))])
        how = "active"
    at = int(np.searchsorted(left, item))
    return Draw(item=item, probability=min(1.0, float(shares[at])), how=how)


def slope(ranks: Floats, predictions: Floats, answers: Floats) -> float:
    """How steeply the squared error rises with the rank of uncertainty, as far as the answers show it.

    The error is what is left of the answers after a linear fit on the predictions. Its square is modelled as
    exp(a + b · rank), fitted by Poisson quasi-likelihood with a weak prior on b. Returned is b less its
    standard error, between 0 and ``STEEPEST``; 0 with fewer than ``FEWEST`` answers.

    Args:
        ranks: Rank of the uncertainty of each answered item, shape (n,), in [-1, 1].
        predictions: The judge's score of these items, shape (n,).
        answers: People's score of these items, shape (n,).
    """
    if answers.size < FEWEST:
        return 0.0
    squares = np.square(residuals(predictions, answers, np.ones(answers.size))[0])
    mean = float(squares.mean())
    if mean < 1e-12 or np.ptp(ranks) == 0:
        return 0.0
    squares = squares / mean
    x = np.stack([np.ones(ranks.size), ranks])
    coefficients, dispersion = np.zeros(2), 1.0
    hessian = np.eye(2)
    for step in range(_STEPS):
        expected = np.exp(np.clip(coefficients @ x, -20, 20))
        if step:
            dispersion = max(1e-6, float((np.square(squares - expected) / expected).mean()))
        prior = np.array([0.0, dispersion / _PRIOR_SD**2])
        hessian = (x * expected) @ x.T + np.diag(prior)
        change = np.linalg.solve(hessian, x @ (squares - expected) - prior * coefficients)
        coefficients = coefficients + np.clip(change, -1, 1)
        if step and np.abs(change).max() < 1e-8:
            break
    error = float(np.sqrt(dispersion * np.linalg.inv(hessian)[1, 1]))
    return float(np.clip(coefficients[1] - DOUBT * error, 0, STEEPEST))


def residuals(predictions: Floats, answers: Floats, weights: Floats) -> tuple[Floats, float, float]:
    """Fit a weighted line; return its residuals, its intercept and its slope, which is at least 0."""
    total = float(weights.sum())
    f, y = float(weights @ predictions) / total, float(weights @ answers) / total
    spread = float(weights @ np.square(predictions - f))
    together = float(weights @ ((predictions - f) * (answers - y)))
    # A slope below 0 would trust the judge's scores upside down.
    slope_of_fit = max(0.0, together / spread) if spread > 1e-12 * total else 0.0
    intercept = y - slope_of_fit * f
    return answers - intercept - slope_of_fit * predictions, intercept, slope_of_fit


def check_arrays(
    sampling: Sampling, uncertainty: npt.ArrayLike, predictions: npt.ArrayLike
) -> tuple[Floats, Floats]:
    """Ranks of the uncertainties, scaled to [-1, 1], and the predictions; or raise TrustError."""
    u, f = floats(uncertainty, predictions)
    if not u.shape == f.shape == (sampling.population,):
        raise TrustError(
            f"uncertainty and predictions need one number for each of {sampling.population} items; "
            f"found shapes {u.shape} and {f.shape}"
        )
    check_finite(predictions=f)
    known = ~np.isnan(u)
    ranks = np.zeros(u.size)
    if known.any():
        _, codes, counts = np.unique(u[known], return_inverse=True, return_counts=True)
        before = np.cumsum(counts) - counts
        ranks[known] = ((2 * before + counts) / known.sum() - 1)[codes]
    return ranks, f


@lru_cache(maxsize=8)
def _random_order(seed: int, population: int) -> Ints:
    order = np.argsort(_uniform_numbers(seed, 0, population), kind="stable")
    order.setflags(write=False)
    return order


def _uniform_numbers(seed: int, step: int, count: int) -> Floats:
    """Numbers in [0, 1) that are the same with every version of NumPy, unlike those of a Generator.

    The step after the seed is never 0: NumPy takes [seed, 0] for the seed alone, so that data simulated with
    the same seed would determine what is drawn.
    """
    raw = PCG64(SeedSequence([seed, step + 1])).random_raw(count)
    return np.asarray(raw >> np.uint64(11), dtype=np.float64) / 2**53
