"""Measures how far two raters agree: rates, Cohen's kappa, Krippendorff's alpha, rank correlations.

Each measure takes the counts of label pairs (:class:`Pairs`) in b resamples and returns shape (b,), NaN where
undefined. Pairs that never occur cost no time: a judge's mean scores over samples have many distinct values,
and hardly any pair of them occurs twice.
"""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import NamedTuple, Unpack

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from trivium.display import HtmlRepr
from trivium.errors import TrustError
from trivium.trust.arrays import Floats, check_finite, check_inside_unit, check_lengths, floats, weights_of
from trivium.trust.cluster_bootstrap import Groups, estimate
from trivium.trust.distributions import Interval
from trivium.trust.intervals import rate_interval
from trivium.trust.resampling import Computing, Counts, chunk_size, over_resamples
from trivium.trust.weighted_means import weighted_mean

RATES = ("exact", "within_one")
RANKED = ("kappa", "kappa_quadratic", "alpha_ordinal", "spearman", "kendall")

MOST_LABELS = 500
"""Largest number of distinct labels: Kendall's tau fills a table with a row and a column for each."""

DECIMALS = 9
"""Decimals to which labels are rounded before they are compared."""

FEW_OTHERS = 10
"""Number of groups with a label other than the commonest that makes allowing for unseen pairs unnecessary."""

ALLOWED = "the intervals of κ, α, ρ and τ allow for pairs of labels that so few may not show"

UNSEEN_PAIRS = 0.5
"""Weight of an unseen pair of labels if every group has only the commonest label."""

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


class Pairs(NamedTuple):
    """Counts of the k pairs of labels that occur, in each of b resamples.

    Attributes:
        counts: Shape (b, k), at least 0.
        first: Index of one rater's label in each pair, shape (k,).
        second: Index of the other's.
        labels: All labels, ascending, shape (c,).
    """

    counts: Floats
    first: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    labels: Floats

    def margin(self, of: npt.NDArray[np.intp]) -> Floats:
        """Count how often a rater, ``first`` or ``second``, gave each label, shape (b, c)."""
        chosen = csr_array((np.ones(of.size), (of, np.arange(of.size))), shape=(self.labels.size, of.size))
        return np.ascontiguousarray((chosen @ self.counts.T).T)


class Agreement(HtmlRepr, msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of two raters.

    Attributes:
        n: Items that both labelled.
        groups: Clusters of items.
        labels: The distinct labels that either rater gave, ascending.
        figures: By name: ``exact`` (the same label) and ``within_one`` (at most one step apart) as shares,
            Cohen's ``kappa`` and ``kappa_quadratic``, Krippendorff's ``alpha_ordinal``, ``spearman`` ρ and
            ``kendall`` τ-b.
        warnings: Caveats for the reader.
    """

    n: int
    groups: int
    labels: tuple[float, ...]
    figures: dict[str, AgreementFigure]
    warnings: tuple[str, ...] = ()


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
    **computing: Unpack[Computing],
) -> Agreement:
    """Compute all measures of agreement, each with a cluster-robust interval.

    Definitions: docs/definitions/agreement.md#exact-agreement, docs/definitions/agreement.md#kappa,
    docs/definitions/agreement.md#alpha.

    The two rates have the interval of :func:`~trivium.trust.intervals.rate_interval`, which also covers
    when all labels agree. The other measures share the resamples of an expanded percentile cluster bootstrap.

    If fewer than ten groups have a label other than the commonest, resamples understate the variety of
    labels. Each interval then spans four: that of the plain resamples, and those with one unseen pair added:
    the commonest label with the label farthest from it, the reverse, or the farthest label twice. The pair
    weighs at most half an item, and less the more such groups there are. At a prevalence of at least 0.95,
    with 20 to 50 items, the interval then covers κ in 96 to 100 % of samples; the plain one in 80 to 95 %.

    Args:
        judge: The judge's label of each attempt, shape (n,), finite: single attempts, not averages over
            repeats.
        people: People's labels of the same attempts, shape (n,), on the same scale.
        groups: The cluster of each attempt.
        step: Distance between neighbouring labels of the scale, for ``within_one``.
        level: Nominal coverage, in (0, 1).
        resamples: Number of resamples of the groups.
        seed: Seed of the resamples.
        weights: How many times each attempt counts, shape (n,), above 0; for actively sampled labels, the
            weights of :func:`~trivium.trust.active_inference.labelled_items`. The two rates then have the
            wide interval of :func:`~trivium.trust.weighted_means.weighted_mean`; for exact agreement,
            ``active_mean`` gives a shorter one.
        **computing: ``threads``, ``chunk_map`` and ``progress``, which change no result: see
            :class:`trivium.trust.resampling.Computing`.

    Raises:
        TrustError: If labels are not finite, differ in length, or have more than 500 distinct values.
    """
    first, second, clusters = _checked(judge, people, groups, step=step, level=level)
    counts_each = None if weights is None else weights_of(weights, first.size)
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
    each = np.ones(first.size) if counts_each is None else counts_each
    unseen, further, warnings = _unseen_pairs(codes, each, clusters, labels)
    each_pair = codes[: first.size] * labels.size + codes[first.size :]
    pairs = np.unique(np.append(each_pair, further).astype(np.intp))
    at = np.searchsorted(pairs, each_pair)
    by_group = csr_array((each, (clusters.codes, at)), shape=(clusters.count, pairs.size))
    rows, columns = np.divmod(pairs, labels.size)
    added = np.stack([np.zeros(pairs.size), *(unseen * (pairs == pair) for pair in further)])
    compute = partial(_resampled, by_group, rows, columns, labels, added)
    cells = np.unique(rows).size * np.unique(columns).size

    points = compute(np.ones((clusters.count, 1), np.uint8))[: len(RANKED), 0]
    replicates = over_resamples(
        compute,
        clusters.count,
        resamples=resamples,
        seed=seed,
        rng="pcg64",
        at_once=min(chunk_size(clusters.count), max(1, _CELLS_AT_ONCE // cells)),
        **computing,
    )
    if not resamples:
        replicates = np.empty((len(added) * len(RANKED), 0))
    for place, name in enumerate(RANKED):
        drawn = replicates[place :: len(RANKED)]
        figures[name] = _ranked(float(points[place]), drawn, clusters.count, first.size, level)
    kinds = tuple(labels.tolist())
    return Agreement(n=first.size, groups=clusters.count, labels=kinds, figures=figures, warnings=warnings)


def _ranked(point: float, replicates: Floats, groups: int, n: int, level: float) -> AgreementFigure:
    """Return a measure; its interval spans those of v ways to resample (``replicates``, shape (v, b))."""
    if np.isnan(point):
        return AgreementFigure(value=None, interval=None, reason="a rater gave one label throughout")
    found, *wider = (estimate(point, drawn, groups=groups, n=n, level=level) for drawn in replicates)
    ends = [each.interval for each in (found, *wider) if each.interval]
    interval = found.interval and msgspec.structs.replace(
        found.interval, low=min(each.low for each in ends), high=max(each.high for each in ends)
    )
    return AgreementFigure(value=point, interval=interval, reason=found.why_none)


def _unseen_pairs(
    codes: npt.NDArray[np.intp], each: Floats, clusters: Groups, labels: Floats
) -> tuple[float, list[int], tuple[str, ...]]:
    """Return the weight and codes of the unseen pairs to allow for, and a warning; none if labels suffice.

    Definition: docs/definitions/agreement.md#unseen-pairs.

    ``codes`` are the labels of one rater, then of the other; the code of a pair is that of ``agreement``.
    """
    common = int(np.bincount(codes, weights=np.tile(each, 2)).argmax())
    others = np.unique(clusters.codes[(codes.reshape(2, -1) != common).any(axis=0)]).size
    if labels.size == 1 or clusters.count == 1 or others >= FEW_OTHERS:
        return 0.0, [], ()
    far, size = int(np.abs(labels - labels[common]).argmax()), labels.size
    few = f"another label than {labels[common]:g} is in {others:,} of {clusters.count:,} groups: {ALLOWED}"
    weight = UNSEEN_PAIRS * (1 - others / FEW_OTHERS)
    return weight, [common * size + far, far * size + common, far * (size + 1)], (few,)


def _resampled(
    by_group: csr_array,
    rows: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
    labels: Floats,
    added: Floats,
    counts: Counts,
) -> Floats:
    """Compute the measures of b resamples, which draw the groups ``counts`` times.

    ``by_group`` counts the pairs in each group; ``added``, shape (v, k), holds v additions to these counts.

    Returns:
        Shape (5 · v, b).
    """
    occurring = np.ascontiguousarray((by_group.T @ counts.astype(np.float64)).T)
    return np.concatenate([measures(Pairs(occurring + extra, rows, columns, labels)) for extra in added])


def measures(pairs: Pairs) -> Floats:
    """Compute the measures named in ``RANKED``, shape (5, b)."""
    first, second = pairs.margin(pairs.first), pairs.margin(pairs.second)
    return np.stack(
        [
            cohen_kappa(pairs, first, second),
            quadratic_kappa(pairs, first, second),
            # Both raters' labels of an item are compared twice, once in each order.
            ordinal_alpha(2 * pairs.counts, pairs.first, pairs.second, first + second),
            spearman_rho(pairs, first, second),
            kendall_tau_b(pairs, first, second),
        ]
    )


def krippendorff_alpha(ratings: npt.ArrayLike) -> float | None:
    """Krippendorff's α for ordered labels of any number of raters; labels may be missing.

    Definition: docs/definitions/agreement.md#alpha.

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
    present = ~np.isnan(given)
    labels, codes = np.unique(given[present], return_inverse=True)
    counts = np.zeros((given.shape[0], labels.size))
    np.add.at(counts, (np.nonzero(present)[0], codes), 1)
    pairs = counts / (counts.sum(axis=1, keepdims=True) - 1)
    coincidences = counts.T @ pairs - np.diag(pairs.sum(axis=0))
    first, second = np.nonzero(coincidences)
    margin = coincidences.sum(axis=-1)
    (alpha,) = ordinal_alpha(coincidences[None, first, second], first, second, margin[None])
    return None if np.isnan(alpha) else float(alpha)


def _rate(
    agree: npt.NDArray[np.bool_], clusters: Groups, weights: Floats | None, *, level: float
) -> AgreementFigure:
    if weights is not None:
        mean = weighted_mean(agree, weights.min() / weights, confidence=level, groups=clusters.codes)
        return AgreementFigure(value=mean.mean if mean else None, interval=mean)
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
    check_inside_unit(level=level)
    if not 0 < step < np.inf:
        raise TrustError(f"step is the distance between two labels, above 0; found {step}")
    first, second = floats(judge, people)
    clusters = Groups.of(groups)
    check_lengths(judge=first, people=second, groups=clusters.codes)
    check_finite(judge=first, people=second)
    return first.round(DECIMALS), second.round(DECIMALS), clusters


def cohen_kappa(pairs: Pairs, first: Floats, second: Floats) -> Floats:
    """Cohen's κ (1960). Undefined if both raters gave the same single label throughout.

    Definition: docs/definitions/agreement.md#kappa.

    Args:
        pairs: The pairs of labels.
        first: How often one rater gave each label, shape (b, c).
        second: How often the other did.
    """
    total = pairs.counts.sum(axis=-1)
    observed = pairs.counts[:, pairs.first != pairs.second].sum(axis=-1) * total
    expected = np.square(total) - (first * second).sum(axis=-1)
    return 1 - _ratio(observed, np.where(_one_label(first, second), 0, expected))


def quadratic_kappa(pairs: Pairs, first: Floats, second: Floats) -> Floats:
    """Cohen's κ weighted by the squared difference of the labels (1968); see :func:`cohen_kappa`.

    Definition: docs/definitions/agreement.md#kappa-quadratic.

    The weights depend on the labels' values, so a label that nobody gave changes nothing.
    """
    total = pairs.counts.sum(axis=-1)
    apart = np.square(pairs.labels[pairs.first] - pairs.labels[pairs.second])
    # The sum over all pairs of labels, by distances from the second rater's mean: no large terms cancel.
    from_mean = pairs.labels - (second @ pairs.labels / total)[:, None]
    expected = ((first + second) * np.square(from_mean)).sum(axis=-1)
    return 1 - _ratio(pairs.counts @ apart, np.where(_one_label(first, second), 0, expected))


def spearman_rho(pairs: Pairs, first: Floats, second: Floats) -> Floats:
    """Spearman's ρ with mean ranks for ties; undefined if a rater gave one label throughout.

    Definition: docs/definitions/agreement.md#spearman.
    """
    total = pairs.counts.sum(axis=-1)
    one, other = _centred_ranks(first, total), _centred_ranks(second, total)
    together = (pairs.counts * one[:, pairs.first] * other[:, pairs.second]).sum(axis=-1)
    return _ratio(together, np.sqrt((first * one**2).sum(axis=-1) * (second * other**2).sum(axis=-1)))


def kendall_tau_b(pairs: Pairs, first: Floats, second: Floats) -> Floats:
    """Kendall's τ-b; undefined if a rater gave one label throughout.

    Definition: docs/definitions/agreement.md#kendall.
    """
    (rows, row), (columns, column) = (
        np.unique(codes, return_inverse=True) for codes in (pairs.first, pairs.second)
    )
    tables = np.zeros((len(pairs.counts), rows.size, columns.size))
    tables[:, row, column] = pairs.counts
    sums = np.zeros((len(tables), rows.size + 1, columns.size + 1))
    sums[:, 1:, 1:] = tables.cumsum(axis=-2).cumsum(axis=-1)
    less = sums[:, row, column]
    discordant = sums[:, row, -1] - sums[:, row, column + 1]
    difference = (pairs.counts * (less - discordant)).sum(axis=-1)
    total = np.square(pairs.counts.sum(axis=-1))
    untied = [(total - np.square(margin).sum(axis=-1)) / 2 for margin in (first, second)]
    return _ratio(difference, np.sqrt(untied[0] * untied[1]))


def ordinal_alpha(
    coincidences: Floats, first: npt.NDArray[np.intp], second: npt.NDArray[np.intp], margin: Floats
) -> Floats:
    """Krippendorff's α for ordered labels; undefined if only one label was given.

    Definition: docs/definitions/agreement.md#alpha.

    Args:
        coincidences: How often labels coincide in an item, in both orders, shape (b, k).
        first: Index of one label of each pair, shape (k,).
        second: Index of the other.
        margin: How often each label was given, shape (b, c).
    """
    total = margin.sum(axis=-1)
    middle = margin.cumsum(axis=-1) - margin / 2
    apart = np.square(middle[:, first] - middle[:, second])
    observed = (coincidences * apart).sum(axis=-1) * (total - 1)
    # The sum over all pairs of labels, by distances from the mean rank, which is half of the total.
    expected = 2 * total * (margin * np.square(middle - total[:, None] / 2)).sum(axis=-1)
    return 1 - _ratio(observed, expected)


def _one_label(first: Floats, second: Floats) -> npt.NDArray[np.bool_]:
    """Whether both raters gave the same single label throughout, shape (b,)."""
    return np.asarray(((first > 0) | (second > 0)).sum(axis=-1) <= 1)


def _centred_ranks(margin: Floats, total: Floats) -> Floats:
    """Mean rank of each label minus the mean of all ranks."""
    return np.asarray(margin.cumsum(axis=-1) - margin / 2 - total[..., None] / 2, dtype=np.float64)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """``numerator`` / ``denominator``, NaN where the denominator is 0."""
    defined = denominator > 0
    return np.where(defined, numerator / np.where(defined, denominator, 1), np.nan)
