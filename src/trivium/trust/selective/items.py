"""Holds predictions with their loss, confidence and group.

Definitions: docs/definitions/selective.md#items, docs/definitions/selective.md#loss.
"""

from collections.abc import Callable, Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import Problem, TrustError, suggest
from trivium.trust.arrays import Floats, check_lengths, floats, weights_of
from trivium.trust.cluster_bootstrap import Groups

Name = Callable[[int], str]

LOSSES = ("abs", "abs_norm", "zero_one")
_LISTED = 10


class Items(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Items to predict, in any order.

    Definition: docs/definitions/selective.md#items.

    Attributes:
        groups: The cluster of each item.
        predicted: Whether there is a prediction, shape (n,); the predictor abstained from the other items.
        loss: Loss of each prediction, shape (n,), finite where predicted.
        confidence: Confidence of each prediction, shape (n,), finite where predicted; only its order matters.
        name: Maps an item's row to its name for readers.
        variant: Name of the confidence.
        weights: How many times each item counts, shape (n,), above 0; None for once each.
    """

    groups: Groups
    predicted: npt.NDArray[np.bool_]
    loss: Floats
    confidence: Floats
    name: Name
    variant: str
    weights: Floats | None = None

    @classmethod
    def of(
        cls,
        groups: Groups | Sequence[Hashable],
        loss: npt.ArrayLike,
        confidence: npt.ArrayLike,
        *,
        predicted: npt.ArrayLike | None = None,
        name: Name | None = None,
        variant: str = "confidence",
        weights: npt.ArrayLike | None = None,
    ) -> "Items":
        """Check and hold items; the loss and confidence of an abstained item are ignored.

        Args:
            groups: The cluster of each item, or its id, shape (n,).
            loss: Shape (n,).
            confidence: Shape (n,).
            predicted: Shape (n,); None when there is a prediction for every item.
            name: Maps an item's row to its name for readers, such as "group 303, item sleep"; default: the
                group's id and the row.
            variant: Name of the confidence, for messages.
            weights: How many times each item counts, shape (n,), above 0: those of labels asked for actively
                (``active_inference.labelled_items``). Once by default.

        Raises:
            TrustError: If the lengths differ, or a loss or a confidence of a predicted item is not finite;
                names the items and the variant.
        """
        known = Groups.of(groups)
        n = known.codes.size
        has_prediction = np.ones(n, np.bool_) if predicted is None else np.asarray(predicted, np.bool_)
        wrong, sure = floats(loss, confidence)
        check_lengths(groups=known.codes, loss=wrong, confidence=sure, predicted=has_prediction)
        label = name or (lambda row: f"group {known.ids[known.codes[row]]}, row {row}")
        _raise_for(
            has_prediction & ~np.isfinite(sure),
            label,
            lambda row: _not_finite(f"confidence {variant!r}", sure[row]),
        )
        _raise_for(has_prediction & ~np.isfinite(wrong), label, lambda row: _not_finite("loss", wrong[row]))
        return cls(
            groups=known,
            predicted=has_prediction,
            loss=wrong,
            confidence=sure,
            name=label,
            variant=variant,
            weights=None if weights is None else weights_of(weights, n),
        )

    @property
    def n(self) -> int:
        """Number of items, predicted or not."""
        return self.predicted.size

    @property
    def total(self) -> float:
        """Weight of all items; their number if each counts once."""
        return float(self.n if self.weights is None else self.weights.sum())

    @property
    def weights_of_predicted(self) -> Floats | None:
        """The weights of the items with a prediction; None if each counts once."""
        return None if self.weights is None else self.weights[self.predicted]

    @property
    def reached(self) -> float:
        """Share of the items that is predicted."""
        return float(np.average(self.predicted, weights=self.weights)) if self.n else 0.0

    def within(self, ids: Sequence[str]) -> "Items":
        """Only the items of the groups ``ids``, with the groups in that order."""
        place = {id_: code for code, id_ in enumerate(ids)}
        moved = np.array([place.get(id_, -1) for id_ in self.groups.ids], np.int64)
        codes = moved[self.groups.codes] if self.n else self.groups.codes
        rows = np.flatnonzero(codes >= 0)
        return Items(
            groups=Groups(ids=tuple(ids), codes=codes[rows]),
            predicted=self.predicted[rows],
            loss=self.loss[rows],
            confidence=self.confidence[rows],
            name=lambda row: self.name(int(rows[row])),
            variant=self.variant,
            weights=None if self.weights is None else self.weights[rows],
        )


def losses(
    pred: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    kind: str = "abs",
    scale: tuple[float, float],
    predicted: npt.ArrayLike | None = None,
    name: Name | None = None,
) -> Floats:
    """Loss of each prediction (docs/definitions/selective.md#loss).

    Args:
        pred: Predictions, shape (n,); those of abstained items are ignored.
        truth: True values, shape (n,).
        kind: ``abs`` |pred - truth|, in the unit of the scale; ``abs_norm`` the same as a share of the
            scale's width; ``zero_one`` 0 where equal, else 1.
        scale: Lowest and highest valid value of pred and truth.
        predicted: Shape (n,); None when there is a prediction for every item.
        name: Maps an item's row to its name for readers; default: the row.

    Returns:
        Shape (n,); 0 where there is no prediction.

    Raises:
        TrustError: If a truth is missing, or pred or truth lies outside the scale; names the items.
    """
    if kind not in LOSSES:
        raise TrustError(f"no loss is called {kind!r}.{suggest(kind, LOSSES)} known: {', '.join(LOSSES)}")
    low, high = scale
    if not low < high:
        raise TrustError(f"scale must rise; found {low:g}:{high:g}")
    predictions, true = floats(pred, truth)
    has_prediction = (
        np.ones(predictions.shape, np.bool_) if predicted is None else np.asarray(predicted, np.bool_)
    )
    check_lengths(pred=predictions, truth=true, predicted=has_prediction)
    label = name or (lambda row: f"row {row}")
    outside = f"outside the scale {low:g}:{high:g}"
    with np.errstate(invalid="ignore"):
        _raise_for(~((true >= low) & (true <= high)), label, lambda row: f"truth is {true[row]:g}, {outside}")
        _raise_for(
            has_prediction & ~((predictions >= low) & (predictions <= high)),
            label,
            lambda row: f"pred is {predictions[row]:g}, {outside}",
        )
    error = np.abs(np.where(has_prediction, predictions, true) - true)
    if kind == "abs_norm":
        return error / (high - low)
    return (error > 0).astype(np.float64) if kind == "zero_one" else error


def _not_finite(what: str, value: float) -> str:
    shown = "NaN" if np.isnan(value) else "infinite"
    return f"{what} is {shown}; a predicted item needs a finite one"


def _raise_for(wrong: npt.NDArray[np.bool_], name: Name, what: Callable[[int], str]) -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        listed = [Problem(name(int(row)), what(int(row))) for row in rows[:_LISTED]]
        raise TrustError(listed, left_out=rows.size - len(listed))
