"""Fits calibrators on labelled items, cross-validated by group.

Definition: docs/definitions/calibration.md#cross-fitting.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError, suggest
from trivium.keywords import keywords
from trivium.trust.arrays import (
    Floats,
    Ints,
    check_between,
    check_binary,
    check_finite,
    check_lengths,
    floats,
    weights_of,
)
from trivium.trust.calibration.calibrator import TEMPERATURE, Calibrator, group_digest
from trivium.trust.calibration.methods import (
    MAX_TEMPERATURE,
    Temperature,
    check_target,
    fit_isotonic,
    fit_linear,
    fit_logistic,
    fit_temperature,
)
from trivium.trust.calibration.quality import probability_quality
from trivium.trust.cluster_bootstrap import Groups
from trivium.trust.confidence.signals import Row, Signals

METHODS = ("temperature", "logistic", "platt", "linear", "isotonic")

FOLDS = 5


class FitOptions(TypedDict, total=False):
    """How the items are split, and what is stored with a calibrator.

    Attributes:
        confidence: The confidence function whose values the features hold; None if they are signals.
        training: Provenance to store: ``judges``, ``prompts``, paths, …
        warnings: Earlier caveats to store, such as defaults used for missing signals.
        folds: Number of folds; at most the number of groups is used.
        seed: Seed of the split of the groups into folds.
    """

    confidence: str | None
    training: Mapping[str, Any] | None
    warnings: Iterable[str]
    folds: int
    seed: int


@keywords(warnings=(), folds=FOLDS, seed=42)
def fit_calibrator(
    method: str,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    features: Sequence[str],
    groups: Groups | Sequence[Hashable],
    target: str = "correctness",
    weights: npt.ArrayLike | None = None,
    **options: Unpack[FitOptions],
) -> Calibrator:
    """Fit one calibrator on all items, and measure its quality on groups that it was not fitted on.

    Definition: docs/definitions/calibration.md#cross-fitting.

    Quote the ``cross_fitted`` metrics: each fold of groups is predicted by a model fitted on the others.
    Those models are stored, and are used for groups that occur again. The ``in_sample`` metrics are too
    optimistic (an isotonic model is perfectly calibrated on its own data).

    Args:
        method: One of ``METHODS``. With the target ``loss``, ``logistic`` and ``platt`` are fitted as
            ``linear``: ridge regression with an identity link.
        x: Features, shape (n, d), or one feature (n,); for ``temperature``, probabilities.
        y: Target, shape (n,), in [0, 1]; 0 or 1 unless the target is ``loss``.
        features: Names of the d features.
        groups: The group of each item, n of them; the fold of a group depends on its id.
        target: One of :data:`~trivium.trust.calibration.methods.TARGETS`.
        weights: How many times each item counts in fits and figures, shape (n,), above 0; once by default.
        **options: See :class:`FitOptions`.

    Raises:
        TrustError: If method, target and data do not fit together.
    """
    _check_combination(method, features, target)
    matrix, targets, clusters = _checked(x, y, groups, features=features, target=target)
    if method == "temperature" and (matrix.min() < 0 or matrix.max() > 1):
        raise TrustError(
            f'method "temperature" needs probabilities; "{features[0]}" runs '
            f"from {matrix.min():g} to {matrix.max():g}"
        )
    continuous = target == "loss"
    each = weights_of(weights, targets.size)
    model = _fit(method, matrix, targets, each, continuous=continuous)
    named = {"temperature": TEMPERATURE, "linear": "logistic"}.get(method, method)
    fitted = Calibrator(method=named, model=model, features=tuple(features))
    fold = assign_folds(clusters, folds=options["folds"], seed=options["seed"])
    out_of_fold, fold_models, reason = _cross_fitted(
        method, matrix, targets, each, fold, fitted.features, continuous=continuous
    )
    quality = _regression_quality if continuous else probability_quality
    metrics: dict[str, object] = {
        "cross_fitted": None if out_of_fold is None else quality(out_of_fold, targets, weights=each),
        "cross_fitted_reason": reason,
        "folds": None if out_of_fold is None else len(fold_models),
        "in_sample": quality(fitted.apply(matrix), targets, weights=each),
    }
    if matrix.shape[1] == 1 and matrix.min() >= 0 and matrix.max() <= 1:
        metrics["uncalibrated"] = quality(matrix[:, 0], targets, weights=each)
    if method == "temperature":
        metrics |= _before_and_after(metrics)
    return msgspec.structs.replace(
        fitted,
        target=target,
        confidence=options["confidence"],
        training_metadata={
            **(options["training"] or {}),
            "method": method,
            "n_samples": targets.size,
            "n_groups": clusters.count,
            "positive_rate": None if continuous else float(np.average(targets, weights=each)),
        },
        metrics=metrics,
        warnings=(*options["warnings"], *_warnings(model, matrix, features)),
        fitted_groups={
            group_digest(clusters.ids[code]): number
            for code, number in zip(clusters.codes.tolist(), fold.tolist(), strict=True)
        },
        fold_models=fold_models,
    )


def _before_and_after(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The two figures that artifacts of a temperature also name by when they were measured."""
    return {
        f"{name}_{when}": metrics[kind][name]
        for when, kind in (("before", "uncalibrated"), ("after", "in_sample"))
        for name in ("ece", "nll")
    }


def _fit(method: str, x: Floats, y: Floats, each: Floats, *, continuous: bool) -> Any:
    if method == "temperature":
        return fit_temperature(x[:, 0], y, each)
    if method == "isotonic":
        return fit_isotonic(x[:, 0], y, each)
    return fit_linear(x, y, each) if continuous else fit_logistic(x, y, each)


def _cross_fitted(
    method: str,
    x: Floats,
    y: Floats,
    each: Floats,
    fold: Ints,
    features: tuple[str, ...],
    *,
    continuous: bool,
) -> tuple[Floats | None, tuple[Any, ...], str | None]:
    """Predict each item by the model of its fold, which was not fitted on its group; return those models too.

    If a model cannot be fitted: None, no models, and the reason.
    """
    if not fold.any():
        return None, (), "only one group: nothing is left to fit on when it is held out"
    out_of_fold, models = np.empty_like(y), []
    for number in range(int(fold.max()) + 1):
        out = fold == number
        try:
            model = _fit(method, x[~out], y[~out], each[~out], continuous=continuous)
        except TrustError as error:
            return None, (), f"without fold {number + 1}: {error}"
        models.append(model)
        out_of_fold[out] = Calibrator(method=method, model=model, features=features).apply(x[out])
    return out_of_fold, tuple(models), None


def _regression_quality(predicted: Floats, target: Floats, *, weights: Floats) -> dict[str, float | None]:
    error = predicted - target
    return {
        "mae": float(np.average(np.abs(error), weights=weights)),
        "mse": float(np.average(np.square(error), weights=weights)),
    }


def _warnings(model: Any, x: Floats, features: Sequence[str]) -> list[str]:
    found = [
        f'feature "{name}" is the same in every item and carries no information'
        for name, constant in zip(features, x.min(axis=0) == x.max(axis=0), strict=True)
        if constant
    ]
    if isinstance(model, Temperature):
        found += model.warnings()
        if (x == 0.5).all():
            found.append("every probability is 0.5: the temperature cannot be determined and stays 1")
        if model.temperature == MAX_TEMPERATURE and np.isin(x, (0.0, 1.0)).any():
            found.append(
                "the data hold probabilities of exactly 0 or 1; a few wrong ones outweigh all others"
            )
    return found


def _check_combination(method: str, features: Sequence[str], target: str) -> None:
    """Check that method, features and target fit together."""
    if method not in METHODS:
        raise TrustError(
            f'no calibrator is called "{method}".{suggest(method, METHODS)}\n  known: {", ".join(METHODS)}'
        )
    check_target(target)
    if method == "temperature" and target == "loss":
        raise TrustError('method "temperature" needs right or wrong as its target, not "loss"')
    if method == "linear" and target != "loss":
        raise TrustError(f'method "linear" needs the target "loss"; for "{target}" use "logistic"')
    if not features:
        raise TrustError("a calibrator needs at least one feature")
    if method in {"temperature", "platt", "isotonic"} and len(features) != 1:
        raise TrustError(f'method "{method}" needs exactly one feature; found {", ".join(features)}')


def _checked(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    groups: Groups | Sequence[Hashable],
    *,
    features: Sequence[str],
    target: str,
) -> tuple[Floats, Floats, Groups]:
    """Convert features (n, d), targets (n,) and groups to arrays, or raise TrustError."""
    matrix, targets = floats(x, y)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    clusters = Groups.of(groups)
    check_lengths(targets=targets, groups=clusters.codes)
    if matrix.shape != (targets.size, len(features)):
        raise TrustError(f"features must have shape {(targets.size, len(features))}; found {matrix.shape}")
    if not targets.size:
        raise TrustError("no items to fit on: a calibrator needs predictions with their truths")
    for name, column in zip(features, matrix.T, strict=True):
        check_finite(**{name: column})
    if target == "loss":
        check_between(0, 1, targets=targets)
    else:
        check_binary(targets=targets)
    return matrix, targets, clusters


def assign_folds(groups: Groups, *, folds: int, seed: int) -> npt.NDArray[np.int64]:
    """The fold of each row: whole groups, in an order drawn from the seed, dealt out in turn.

    The fold of a group depends on the ids of the groups and the seed, not on the order of the rows.

    Args:
        groups: The group of each row, at least one.
        folds: Number of folds, at least 2.
        seed: Seed of the order.

    Returns:
        Shape (n,), 0 … min(folds, number of groups) - 1.

    Raises:
        ValueError: If ``folds`` is below 2.
    """
    if folds < 2:
        raise ValueError(f"folds must be at least 2; found {folds}")
    fold = np.random.default_rng(seed).permutation(groups.count) % folds
    return np.asarray(fold[groups.codes], dtype=np.int64)


KNOWN = (
    "llm_evidence_count",
    "retrieval_reference_count",
    "retrieval_similarity_mean",
    "retrieval_similarity_max",
    "verbalized_confidence",
    "token_msp",
    "token_pe",
    "token_energy",
    "consistency_modal_confidence",
    "consistency_score_std",
    "consistency_na_rate",
)
"""Signals that a judgement can carry (docs/definitions/judge.md#consistency)."""

MIDDLE_OF_FIVE = 3.0

WITHOUT_DEFAULT = frozenset({"consistency_modal_confidence"})
"""Signals in [0, 1] whose name contains "confidence", which would give them the default 3: a gap is an error.
"""


def feature_matrix(
    rows: Sequence[Row],
    features: Sequence[str],
    *,
    groups: Sequence[object] | None = None,
    items: Sequence[object] | None = None,
    used: npt.ArrayLike | None = None,
    requested_by: str = "the calibrator",
) -> tuple[Floats, list[str]]:
    """The features of every item.

    Definition: docs/definitions/calibration.md#missing-features.

    A null or missing signal counts as 0 if its name contains "similarity", as 3 (the middle of 1–5) if it
    contains "confidence", and otherwise as 0; the returned notes count such cases. A name that is neither a
    known signal nor present in any item is an error, because a misspelt feature would be constant.

    Args:
        rows: One mapping of signal names to values per item, n of them.
        features: Names of d signals.
        groups: The group of each item, for errors.
        items: The name of each item, for errors.
        used: Which items are used, shape (n,), bool.
        requested_by: What reads the features, for errors.

    Returns:
        Shape (n, d), finite, NaN for unused items; and notes on the defaults used.

    Raises:
        TrustError: If a feature is unknown, or a value is not a finite number.
    """
    signals = Signals(rows, requested_by=requested_by, groups=groups, items=items, used=used)
    unknown = [name for name in features if name not in KNOWN and not any(name in row for row in rows)]
    if unknown:
        raise TrustError(
            f'{requested_by}: no item has a signal "{unknown[0]}".{suggest(unknown[0], KNOWN)}\n'
            f"  known: {', '.join(KNOWN)}"
        )
    columns = [signals.number(name, null=_default(name), absent=_default(name)) for name in features]
    matrix = np.column_stack(columns) if columns else np.empty((len(rows), 0))
    return matrix, filled_in(signals)


def filled_in(signals: Signals) -> list[str]:
    """One line per signal whose default was used."""
    return [
        f'signal "{name}" is null or missing in {count:,} of {signals.used_count:,} items; '
        "its default was used"
        for name, count in signals.filled.items()
    ]


def _default(name: str) -> float | None:
    if name in WITHOUT_DEFAULT:
        return None
    return MIDDLE_OF_FIVE if "confidence" in name and "similarity" not in name else 0.0
