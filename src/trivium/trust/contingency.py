"""Measures of agreement between two raters, computed from tables of how often they gave which pair of labels.

Every function takes tables of shape (…, c, c): rows for the labels of one rater, columns for those of the
other, both in rising order. The figure has shape (…,) and is NaN where it is not defined, so that one call
serves all resamples (spec: metrics, H.1).
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def cohen_kappa(tables: Floats, labels: Floats, *, quadratic: bool) -> Floats:
    """Cohen's κ (1960), or with the squared difference of the labels as the weight of a disagreement (1968).

    The weights go by the labels' values, so a label that nobody gave changes nothing; not defined where both
    raters gave one and the same label throughout.
    """
    apart = np.square(labels[:, None] - labels) if quadratic else 1.0 - np.eye(labels.size)
    total = tables.sum(axis=(-2, -1))
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    observed = (tables * apart).sum(axis=(-2, -1)) * total
    expected = np.einsum("...i,ij,...j->...", rows, apart, columns)
    return 1 - _ratio(observed, expected)


def spearman_rho(tables: Floats) -> Floats:
    """Spearman's ρ with mean ranks for ties; not defined where a rater gave one label throughout."""
    total = tables.sum(axis=(-2, -1))
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    first, second = _centred_ranks(rows, total), _centred_ranks(columns, total)
    together = np.einsum("...i,...ij,...j->...", first, tables, second)
    return _ratio(together, np.sqrt((rows * first**2).sum(axis=-1) * (columns * second**2).sum(axis=-1)))


def kendall_tau_b(tables: Floats) -> Floats:
    """Kendall's τ-b; not defined where a rater gave one label throughout."""
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

    For two raters and nothing missing, the coincidences are a table plus its transpose. Not defined where
    only one label was given.
    """
    margin = coincidences.sum(axis=-1)
    middle = margin.cumsum(axis=-1) - margin / 2
    apart = np.square(middle[..., :, None] - middle[..., None, :])
    observed = (coincidences * apart).sum(axis=(-2, -1)) * (margin.sum(axis=-1) - 1)
    expected = (margin[..., :, None] * margin[..., None, :] * apart).sum(axis=(-2, -1))
    return 1 - _ratio(observed, expected)


def _centred_ranks(margin: Floats, total: Floats) -> Floats:
    """Mean rank of each label, less the mean of all ranks."""
    return np.asarray(margin.cumsum(axis=-1) - margin / 2 - total[..., None] / 2, dtype=np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    """``above`` / ``below``, NaN where ``below`` is 0."""
    fine = below > 0
    return np.where(fine, above / np.where(fine, below, 1), np.nan)
