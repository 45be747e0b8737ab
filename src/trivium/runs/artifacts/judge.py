"""Computes agreement, certificates and calibrators of a judge from labelled items."""

from collections.abc import Sequence
from typing import Any, Literal, Unpack

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, UnsetType

from trivium.errors import TrustError
from trivium.runs.artifacts.variant import Ends, warnings_of_groups
from trivium.runs.items.ranked import ChoiceMade, checked_scale, choose, confidences
from trivium.runs.items.table import ItemTable, Origin, Unlabelled
from trivium.suites.certificate import JudgedBy
from trivium.trust.bias_correction import Corrected, corrected_mean, corrected_rate
from trivium.trust.calibration.calibrator import TEMPERATURE, Calibrator
from trivium.trust.calibration.fitting import feature_matrix, fit_calibrator
from trivium.trust.calibration.methods import EQUAL, target_values
from trivium.trust.certification import Certificate, certify, labels_needed, why_none
from trivium.trust.confidence.functions import CalibratorUse, Confidence
from trivium.trust.distributions import Interval
from trivium.trust.rater_agreement import agreement
from trivium.trust.resampling import Computing
from trivium.values import JsonObject, record_of


class AgreementMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """A measure of agreement; ``reason`` says why it or its interval is missing."""

    value: float | None
    ci95: Ends | None
    reason: str | None


class CorrectedMean(msgspec.Struct, frozen=True, kw_only=True):
    """People's mean, estimated from the judge's; see :class:`trivium.trust.bias_correction.Corrected`."""

    value: float | None
    judge: float | None
    people: float | None
    labelled: int
    unlabelled: int
    weight: float | None
    sensitivity: float | None
    specificity: float | None
    reason: str | None
    warnings: tuple[str, ...]
    ci95: Ends | None
    method: str | None


class AgreementAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How far the predictions agree with the truths.

    Attributes:
        n: Items with both.
        groups: Clusters of items.
        abstained: Items without a prediction.
        labels: The distinct labels, ascending.
        step: Distance between neighbouring labels.
        sides: Who predicts, and who gives the truth.
        judge_mean: Mean prediction; None without items.
        people_mean: Mean truth; None without items.
        corrected: The mean truth of all items, estimated; None without unlabelled items.
        corrected_rate: The same by sensitivity and specificity, where labels are 0 and 1.
        inputs: Where the items are from.
        warnings: Caveats for the reader.
    """

    n: int
    groups: int
    abstained: int
    labels: list[float]
    step: float
    sides: tuple[str, str]
    judge_mean: float | None
    people_mean: float | None
    exact: AgreementMeasure
    within_one: AgreementMeasure
    kappa: AgreementMeasure
    kappa_quadratic: AgreementMeasure
    alpha_ordinal: AgreementMeasure
    spearman: AgreementMeasure
    kendall: AgreementMeasure
    corrected: CorrectedMean | None
    corrected_rate: CorrectedMean | UnsetType = UNSET
    inputs: list[Origin]
    warnings: list[str]


def agreement_answer(
    table: ItemTable,
    *,
    step: float | None = None,
    scale: tuple[float, float] | None = None,
    resamples: int = 10_000,
    seed: int = 42,
    **computing: Unpack[Computing],
) -> AgreementAnswer:
    """Compute the agreement of predictions and truths, and people's mean estimated from the judge's.

    Args:
        table: The items; abstentions are counted and left out.
        step: Distance between neighbouring labels; by default 1, or on a scale narrower than 2 the smallest
            distance that occurs.
        scale: Lowest and highest value of predictions and truths, if the user states them.
        resamples: Number of bootstrap resamples of the groups.
        seed: Seed of the resamples.
        **computing: ``chunk_map`` and ``progress``, which change no result: see
            :class:`trivium.trust.resampling.Computing`.

    Raises:
        TrustError: If a value is off the scale, there are too many different labels, or an option is wrong.
    """
    predicted_rows = np.flatnonzero(table.predicted)
    judge, people = table.pred[predicted_rows], table.gt[predicted_rows]
    groups = table.groups_of(predicted_rows)
    ends = checked_scale(table, scale)
    apart = step or _step(judge, people, ends.width)
    weights = None if table.weights is None else table.weights[predicted_rows]
    found = agreement(
        judge,
        people,
        groups,
        step=apart,
        resamples=resamples,
        seed=seed,
        weights=weights,
        **computing,
    )
    corrected: CorrectedMean | None = None
    corrected_by_rates: CorrectedMean | UnsetType = UNSET
    sample, rest = _random_sample(table)
    if rest.pred.size and sample.size:
        samples = table.gt[sample], table.pred[sample], rest.pred
        groups = table.groups_of(sample)
        mean = corrected_mean(*samples, groups=groups, groups_only=rest.groups, low=ends.low, high=ends.high)
        corrected = _corrected(mean)
        if np.isin(np.concatenate(samples), (0.0, 1.0)).all():
            rate = corrected_rate(*samples, groups=groups, groups_only=rest.groups)
            corrected_by_rates = _corrected(rate)
    figures = {
        name: AgreementMeasure(value=figure.value, ci95=_ends(figure.interval), reason=figure.reason)
        for name, figure in found.figures.items()
    }
    return AgreementAnswer(
        n=found.n,
        groups=found.groups,
        abstained=table.n - found.n,
        labels=list(found.labels),
        step=apart,
        sides=table.sides,
        judge_mean=float(np.average(judge, weights=weights)) if judge.size else None,
        people_mean=float(np.average(people, weights=weights)) if people.size else None,
        **figures,
        corrected=corrected,
        corrected_rate=corrected_by_rates,
        inputs=[table.origin],
        warnings=[*table.notes, *found.warnings, *warnings_of_groups(found.groups)],
    )


def _random_sample(table: ItemTable) -> tuple[npt.NDArray[np.int64], Unlabelled]:
    """Rows of the predictions in the simple random sample, and all other predictions.

    Definition: docs/definitions/agreement.md#usable-labels.
    """
    if table.at_random is None:
        return np.flatnonzero(table.predicted), table.rest
    others = np.flatnonzero(table.predicted & ~table.at_random)
    groups = (*table.rest.groups, *(table.groups.ids[code] for code in table.groups.codes[others]))
    rest = Unlabelled(groups=groups, pred=np.append(table.rest.pred, table.pred[others]))
    return np.flatnonzero(table.predicted & table.at_random), rest


def _step(judge: Any, people: Any, width: float) -> float:
    labels = np.unique(np.concatenate([judge, people]).round(9))
    if width >= 2 or labels.size < 2:
        return 1.0
    return float(np.diff(labels).min())


def _corrected(estimate: Corrected) -> CorrectedMean:
    interval = estimate.interval
    method = None if interval is None else interval.method
    return record_of(CorrectedMean, estimate, ci95=_ends(interval), method=method)


def _ends(interval: Interval | None) -> Ends | None:
    return None if interval is None else (interval.low, interval.high)


SCHEMA_VERSION = "1"


class CertificateAnswer(Certificate, frozen=True, kw_only=True):
    """A certificate, with what it was made from and for what it holds.

    Attributes:
        confidence: The confidence that the threshold is of.
        labels_needed: About how many labels would certify something; None if that is unknown.
        confidence_choice: Why this confidence is used.
        calibration: How the confidence was calibrated; None if it was not.
        schema_version: Version of this format.
        dimension: What was judged; None for items that are not of a run.
        judged_by: How it was judged; None for items that are not of a run.
        calibrator: The calibrator that the confidence needs, or None.
        n_items: Number of items.
        tolerance: Largest distance from the truth at which a prediction counts as right.
        inputs: Where the items are from.
        warnings: Caveats for the reader.
    """

    confidence: str
    labels_needed: int | None
    confidence_choice: ChoiceMade
    calibration: CalibratorUse | None
    schema_version: str
    dimension: str | None
    judged_by: JudgedBy | None
    calibrator: JsonObject | None
    n_items: int
    tolerance: float
    inputs: list[Origin]
    warnings: list[str]


def certificate(
    table: ItemTable,
    variant: str | None,
    *,
    epsilon: float = 0.1,
    delta: float = 0.1,
    tolerance: float = 0.0,
    group_size: int | None = None,
    bound: Literal["betting", "hoeffding"] = "betting",
    calibrator: Calibrator | None = None,
) -> CertificateAnswer:
    """Find the lowest confidence from which on predictions are certified.

    Args:
        table: The items; abstentions go to people.
        variant: Name of the confidence; None for the one stated with the items, else for the best signal by
            AUROC on these labels. In the latter case ``delta`` is divided by the number of candidates, so
            that the promise holds for the chosen one (Bonferroni).
        epsilon: Tolerated error rate among accepted predictions, in (0, 1).
        delta: Probability that the promise is broken, in (0, 1).
        tolerance: A prediction farther than this from the truth is wrong.
        group_size: Most predictions that a group can have; by default the most of all items of the run, else
            of the labelled items, which is no bound (docs/definitions/calibration.md#group-size).
        bound: The test for groups with several predictions.
        calibrator: For calibrated confidences.

    Raises:
        TrustError: If a value is off the declared scale, an option or a confidence is invalid, or the
            calibrator may have been fitted on these labels (docs/definitions/calibration.md#certificate).
    """
    checked_scale(table, None)
    (named, *_), choice = choose([table], variant, tolerance=tolerance)
    confidence = confidences(table, named, calibrator=calibrator)
    _refuse_unknown_groups(confidence)
    predicted_rows, _ = _random_sample(table)
    items = table.n if table.at_random is None else int(table.at_random.sum())
    wrong = np.abs(table.pred[predicted_rows] - table.gt[predicted_rows]) > tolerance + EQUAL
    known, known_from = table.group_size or (None, "labels")
    if group_size is not None and known is not None and known > group_size:
        raise TrustError(f"group_size is {group_size:,}, and a group of the run has {known:,} verdicts")
    verdicts = (
        wrong.astype(np.float64),
        confidence.values[predicted_rows],
        table.groups_of(predicted_rows),
    )
    found = certify(
        *verdicts,
        epsilon=epsilon,
        delta=delta / choice.among,
        n_items=items,
        group_size=group_size or known,
        bound=bound,
    )
    needed = labels_needed(*verdicts, found)
    return CertificateAnswer(
        confidence=named,
        **msgspec.structs.asdict(found)
        | {
            "delta": delta,
            "reason": why_none(found, needed),
            "group_size_from": "stated" if group_size is not None else known_from,
        },
        labels_needed=needed,
        confidence_choice=choice,
        calibration=confidence.calibrator,
        schema_version=SCHEMA_VERSION,
        dimension=table.origin.mode if table.judged_by is not None else None,
        judged_by=table.judged_by,
        calibrator=None if calibrator is None or confidence.calibrator is None else calibrator.to_json(),
        n_items=items,
        tolerance=tolerance,
        inputs=[table.origin],
        warnings=[*table.notes, *_left_out(table), *confidence.warnings],
    )


def _left_out(table: ItemTable) -> list[str]:
    """What a certificate does not use."""
    if table.at_random is None:
        return []
    count = int((~table.at_random).sum())
    asked = f"{count:,} labels of items asked because the judge was unsure are not used"
    return [f"{asked}: a certificate needs a simple random sample (a queue made with --uniform is one)"]


def _refuse_unknown_groups(confidence: Confidence) -> None:
    """Refuse a calibrator if it is unknown whether it was fitted on these labels."""
    use = confidence.calibrator
    if use is not None and not use.groups_known and use.method != TEMPERATURE:
        raise TrustError(
            "the calibrator does not list the groups that it was fitted on. These labels may be among "
            "them, and then a certificate would promise nothing: fit it again with trivium trust calibrate"
        )


ON_SIGNALS = ("logistic", "platt", "linear")
"""Methods whose calibrators use named signals, never a confidence."""


def calibrate(
    table: ItemTable,
    *,
    method: str,
    features: Sequence[str] = (),
    confidence: str | None = None,
    target: str = "correctness",
    scale: tuple[float, float] | None = None,
    seed: int = 42,
) -> Calibrator:
    """Fit a calibrator on the predictions of a table.

    Args:
        table: The items.
        method: ``temperature``, ``logistic``, ``platt``, ``linear`` or ``isotonic``.
        features: Signals that the calibrator uses. Give either these or ``confidence``.
        confidence: The confidence to calibrate, for ``temperature`` and ``isotonic``.
        target: ``correctness``, ``near_correct`` or ``loss``.
        scale: Lowest and highest value of predictions and truths, if the user states them.
        seed: Seed of the split into folds.

    Raises:
        TrustError: If a value is off the scale, there is nothing to fit on, or the options contradict each
            other.
    """
    if bool(features) == (confidence is not None):
        raise TrustError(
            "a calibrator looks at signals or at one confidence: name --features or --confidence"
        )
    if confidence is not None and method in ON_SIGNALS:
        raise TrustError(f'method "{method}" looks at signals: name --features')
    predicted_rows = np.flatnonzero(table.predicted)
    named = tuple(features)
    if confidence is not None:
        ranked_by = confidences(table, confidence)
        notes, x, named = ranked_by.warnings, ranked_by.values[predicted_rows], (confidence,)
    else:
        matrix, filled = feature_matrix(
            table.signals,
            features,
            groups=table.group_names,
            items=table.names,
            used=table.predicted,
            requested_by=f'calibrator "{method}"',
        )
        x, notes = matrix[predicted_rows], tuple(filled)
    ends = checked_scale(table, scale)
    y = target_values(table.pred[predicted_rows], table.gt[predicted_rows], target, span=ends.width)
    training: JsonObject = {
        key: value for key, value in msgspec.structs.asdict(table.origin).items() if value is not None
    }
    return fit_calibrator(
        method,
        x,
        y,
        features=named,
        groups=table.groups_of(predicted_rows),
        target=target,
        confidence=confidence,
        training=training | table.provenance,
        warnings=[*table.notes, *notes],
        seed=seed,
        weights=None if table.weights is None else table.weights[predicted_rows],
    )
