"""Measures how far two raters agree: rates, Cohen's kappa, Krippendorff's alpha, rank correlations.

Functions of tables take shape (…, c, c): rows are the labels of one rater, columns those of the other, both
ascending. They return shape (…,), NaN where undefined, so that one call covers all resamples (spec: metrics,
H.1).
"""

from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from trivium.display import HtmlRepr
from trivium.errors import Problem, TrustError
from trivium.trust.calibration.quality import checked_weights
from trivium.trust.cluster_bootstrap import Counts, Groups, estimate, over_resamples
from trivium.trust.distributions import Interval
from trivium.trust.intervals import rate_interval
from trivium.trust.weighted_means import weighted_mean

Floats = npt.NDArray[np.float64]


RATES = ("exact", "within_one")
RANKED = ("kappa", "kappa_quadratic", "alpha_ordinal", "spearman", "kendall")

MOST_LABELS = 500
"""Largest number of distinct labels; a table has one cell per pair of them."""

DECIMALS = 9
"""Labels that are equal after rounding to this many decimals are the same."""

_CELLS_AT_ONCE = 1 << 21


class AgreementFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of agreement.

    Attributes:
        value: At most 1; None where undefined.
        interval: Cluster-robust interval; None if there is none.
        reason: Why a value or an interval is missing, or None.
    """

    value: float | None
    interval: Interval | None
    reason: str | None = None


class Agreement(HtmlRepr, msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of two raters.

    Attributes:
        n: Items that both labelled.
        groups: Clusters of items.
        labels: The distinct labels that either rater gave, ascending.
        figures: By name: ``exact`` (the same label) and ``within_one`` (at most one step apart) as shares,
            Cohen's ``kappa`` and ``kappa_quadratic``, Krippendorff's ``alpha_ordinal``, ``spearman`` ρ and
            ``kendall`` τ-b.
    """

    n: int
    groups: int
    labels: tuple[float, ...]
    figures: dict[str, AgreementFigure]


def agreement(
    judge: npt.ArrayLike,
    people: npt.ArrayLike,
    groups: Groups | Sequence[Hashable],
    *,
    step: float = 1.0,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
    weights: npt.ArrayLike | None = None,
) -> Agreement:
    """Compute all measures of agreement, each with a cluster-robust interval.

    The two rates have the interval of :func:`~trivium.trust.intervals.rate_interval`, which covers also when
    all labels agree. The others have the expanded percentile cluster bootstrap, all from the same resamples.

    Args:
        judge: The judge's label of each attempt, shape (n,), finite: single attempts, not averages over
            repeats.
        people: People's labels of the same attempts, shape (n,), on the same scale.
        groups: The cluster of each attempt.
        step: Distance between neighbouring labels of the scale, for ``within_one``.
        level: Nominal coverage, in (0, 1).
        resamples: Number of resamples of the groups.
        seed: Seed of the resamples.
        weights: How many times each attempt counts, shape (n,), above 0: those of
            :func:`~trivium.trust.active_inference.labelled_items` for labels asked for actively. The two
            rates then have the wide interval of :func:`~trivium.trust.weighted_means.weighted_mean`; that of
            ``active_mean`` is shorter for exact agreement.

    Raises:
        TrustError: If labels are not finite, differ in length, or have more than 500 distinct values.
    """
    first, second, clusters = _checked(judge, people, groups, step=step, level=level)
    counts_each = None if weights is None else checked_weights(weights, first.size)
    if not first.size:
        undefined = AgreementFigure(value=None, interval=None, reason="no item has both labels")
        return Agreement(n=0, groups=0, labels=(), figures=dict.fromkeys((*RATES, *RANKED), undefined))
    labels, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    if labels.size > MOST_LABELS:
        raise TrustError(
            f"agreement needs grades: found {labels.size:,} distinct labels, over {MOST_LABELS}; round them"
        )
    apart = np.abs(first - second)
    figures = {
        name: _rate(apart <= reach + 10**-DECIMALS, clusters, counts_each, level=level)
        for name, reach in zip(RATES, (0.0, step), strict=True)
    }
    cells, at = np.unique(codes[: first.size] * labels.size + codes[first.size :], return_inverse=True)
    each = np.ones(first.size) if counts_each is None else counts_each
    by_group = csr_array((each, (clusters.codes, at)), shape=(clusters.count, cells.size))

    def compute(counts: Counts) -> Floats:
        tables = np.zeros((counts.shape[1], labels.size**2))
        tables[:, cells] = (by_group.T @ counts.astype(np.float64)).T
        return measures(tables.reshape(-1, labels.size, labels.size), labels)

    points = compute(np.ones((clusters.count, 1), np.uint8))[:, 0]
    replicates = over_resamples(
        compute,
        clusters.count,
        resamples=resamples,
        seed=seed,
        rng="pcg64",
        at_once=min(1024, _CELLS_AT_ONCE // labels.size**2),
        threads=1,
    )
    if not resamples:
        replicates = np.empty((len(RANKED), 0))
    for name, point, drawn in zip(RANKED, points, replicates, strict=True):
        known = None if np.isnan(point) else float(point)
        found = estimate(known, drawn, groups=clusters.count, n=first.size, level=level)
        reason = "a rater gave one label throughout" if known is None else found.why_none
        figures[name] = AgreementFigure(value=known, interval=found.interval, reason=reason)
    return Agreement(n=first.size, groups=clusters.count, labels=tuple(labels.tolist()), figures=figures)


def measures(tables: Floats, labels: Floats) -> Floats:
    """The measures named in ``RANKED``, shape (5, b), of tables (b, c, c) with labels (c,)."""
    return np.stack(
        [
            cohen_kappa(tables, labels, quadratic=False),
            cohen_kappa(tables, labels, quadratic=True),
            ordinal_alpha(tables + tables.swapaxes(-2, -1)),
            spearman_rho(tables),
            kendall_tau_b(tables),
        ]
    )


def krippendorff_alpha(ratings: npt.ArrayLike) -> float | None:
    """Krippendorff's α for ordered labels of any number of raters; labels may be missing.

    Args:
        ratings: Shape (items, raters), NaN where a rater gave no label.

    Returns:
        At most 1; None where no item has two labels, or all labels are the same.

    Raises:
        TrustError: If the shape is another one, or a label is infinite.
    """
    given = np.asarray(ratings, dtype=np.float64)
    if given.ndim != 2 or np.isinf(given).any():
        raise TrustError(f"ratings must be finite numbers, items by raters; found shape {given.shape}")
    given = given[(~np.isnan(given)).sum(axis=1) > 1].round(DECIMALS)
    there = ~np.isnan(given)
    labels, codes = np.unique(given[there], return_inverse=True)
    counts = np.zeros((given.shape[0], labels.size))
    np.add.at(counts, (np.nonzero(there)[0], codes), 1)
    pairs = counts / (counts.sum(axis=1, keepdims=True) - 1)
    alpha = ordinal_alpha(counts.T @ pairs - np.diag(pairs.sum(axis=0)))
    return None if np.isnan(alpha) else float(alpha)


def _rate(
    agree: npt.NDArray[np.bool_], clusters: Groups, weights: Floats | None, *, level: float
) -> AgreementFigure:
    if weights is not None:
        found = weighted_mean(agree, weights.min() / weights, confidence=level, groups=clusters.codes)
        return AgreementFigure(value=found.mean if found else None, interval=found)
    interval = rate_interval(agree, clusters.codes, level=level)
    reason = "one group" if interval is None else None
    return AgreementFigure(value=float(agree.mean()), interval=interval, reason=reason)


def _checked(
    judge: npt.ArrayLike,
    people: npt.ArrayLike,
    groups: Groups | Sequence[Hashable],
    *,
    step: float,
    level: float,
) -> tuple[Floats, Floats, Groups]:
    """Convert labels and groups to arrays of one length, or raise TrustError."""
    if not 0 < level < 1:
        raise TrustError(f"level must lie between 0 and 1; found {level}")
    if not 0 < step < np.inf:
        raise TrustError(f"step is the distance between two labels, above 0; found {step}")
    first, second = (np.asarray(labels, dtype=np.float64) for labels in (judge, people))
    clusters = groups if isinstance(groups, Groups) else Groups.of(groups)
    if first.ndim != 1 or not first.shape == second.shape == clusters.codes.shape:
        raise TrustError(
            "judge, people and groups must be one-dimensional and of equal length; "
            f"found {first.shape}, {second.shape} and {clusters.codes.shape}"
        )
    for name, labels in (("judge", first), ("people", second)):
        if not np.isfinite(labels).all():
            at = int(np.argmin(np.isfinite(labels)))
            raise TrustError(Problem(f"{name}[{at}]", f"must be a finite number; found {labels[at]}"))
    return first.round(DECIMALS), second.round(DECIMALS), clusters


def cohen_kappa(tables: Floats, labels: Floats, *, quadratic: bool) -> Floats:
    """Cohen's κ (1960), or κ weighted by the squared difference of the labels (1968).

    The weights depend on the labels' values, so a label that nobody gave changes nothing. Undefined if both
    raters gave the same single label throughout.
    """
    apart = np.square(labels[:, None] - labels) if quadratic else 1.0 - np.eye(labels.size)
    total = tables.sum(axis=(-2, -1))
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    observed = (tables * apart).sum(axis=(-2, -1)) * total
    expected = np.einsum("...i,ij,...j->...", rows, apart, columns)
    return 1 - _ratio(observed, expected)


def spearman_rho(tables: Floats) -> Floats:
    """Spearman's ρ with mean ranks for ties; undefined if a rater gave one label throughout."""
    total = tables.sum(axis=(-2, -1))
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    first, second = _centred_ranks(rows, total), _centred_ranks(columns, total)
    together = np.einsum("...i,...ij,...j->...", first, tables, second)
    return _ratio(together, np.sqrt((rows * first**2).sum(axis=-1) * (columns * second**2).sum(axis=-1)))


def kendall_tau_b(tables: Floats) -> Floats:
    """Kendall's τ-b; undefined if a rater gave one label throughout."""
    total = tables.sum(axis=(-2, -1))
    sums = np.zeros((*tables.shape[:-2], tables.shape[-2] + 1, tables.shape[-1] + 1))
    sums[..., 1:, 1:] = tables.cumsum(axis=-2).cumsum(axis=-1)
    concordant = (tables * sums[..., :-1, :-1]).sum(axis=(-2, -1))
    discordant = (tables * (sums[..., :-1, -1:] - sums[..., :-1, 1:])).sum(axis=(-2, -1))
    untied = [
        (np.square(total) - np.square(margin).sum(axis=-1)) / 2
        for margin in (tables.sum(axis=-1), tables.sum(axis=-2))
    ]
    return _ratio(concordant - discordant, np.sqrt(untied[0] * untied[1]))


def ordinal_alpha(coincidences: Floats) -> Floats:
    """Krippendorff's α for ordered labels, from symmetric coincidence matrices.

    For two raters and no missing labels, the coincidences are a table plus its transpose. Undefined if only
    one label was given.
    """
    margin = coincidences.sum(axis=-1)
    middle = margin.cumsum(axis=-1) - margin / 2
    apart = np.square(middle[..., :, None] - middle[..., None, :])
    observed = (coincidences * apart).sum(axis=(-2, -1)) * (margin.sum(axis=-1) - 1)
    expected = (margin[..., :, None] * margin[..., None, :] * apart).sum(axis=(-2, -1))
    return 1 - _ratio(observed, expected)


def _centred_ranks(margin: Floats, total: Floats) -> Floats:
    """Mean rank of each label minus the mean of all ranks."""
    return np.asarray(margin.cumsum(axis=-1) - margin / 2 - total[..., None] / 2, dtype=np.float64)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """``numerator`` / ``denominator``, NaN where the denominator is 0."""
    defined = denominator > 0
    return np.where(defined, numerator / np.where(defined, denominator, 1), np.nan)
