"""Computes the confidence of items from their signals, by named functions and their calibrated variants."""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError, suggest
from trivium.trust.arrays import Floats
from trivium.trust.calibration.calibrator import TEMPERATURE, Calibrator
from trivium.trust.calibration.fitting import feature_matrix, filled_in
from trivium.trust.calibration.methods import LinearModel
from trivium.trust.confidence.signals import Row, Signals

ConfidenceFunction = Callable[[Signals], Floats]
"""Maps the signals of n items to their confidences, shape (n,); higher is more confident."""

REGISTERED: dict[str, ConfidenceFunction] = {}

RESERVED = frozenset({"all", "default", "confidence", "calibrated", "verbalized_calibrated"})
"""Words with another meaning where a confidence is named."""


def confidence_function(*names: str) -> Callable[[ConfidenceFunction], ConfidenceFunction]:
    """Register a confidence function under one or more names.

    Definition: docs/definitions/selective.md#confidence.

        @confidence_function("agreement_of_quotes")
        def agreement_of_quotes(signals: Signals) -> Floats:
            return signals.number("quote_agreement", low=0, high=1)

    Raises:
        ValueError: If a name is taken, reserved, or not made of letters, digits, ``_``, ``.`` and ``-``.
    """
    for name in names:
        if name in REGISTERED or name in RESERVED:
            raise ValueError(f'a confidence is already called "{name}"')
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f'"{name}" cannot name a confidence: letters, digits, "_", "." and "-" only')

    def register(function: ConfidenceFunction) -> ConfidenceFunction:
        REGISTERED.update(dict.fromkeys(names, function))
        return function

    return register


def base_function(name: str, *, within: str) -> ConfidenceFunction:
    """Look up a registered confidence function.

    Args:
        name: Name of the function.
        within: The whole variant that contains the name, for the error.

    Raises:
        TrustError: If there is no such function.
    """
    try:
        return REGISTERED[name]
    except KeyError:
        part = "" if name == within else f' (in "{within}")'
        raise TrustError(
            f'no confidence is called "{name}"{part}.{suggest(name, REGISTERED)}\n'
            f"  known: {', '.join(REGISTERED)}, secondary:<a>+<b>:<average|product>, "
            "verbalized_calibrated, calibrated, calibrated:<any of these>"
        ) from None


DEFAULT = ("llm", "total_evidence")
"""Meaning of ``--confidence default``, as in the original tool."""

FULL_EVIDENCE_COUNT = 3
"""Number of cited quotes from which the evidence counts as full."""

ENERGY_LIMIT = 709.0
"""Largest energy (nats) whose exponential fits into a double."""


@confidence_function("llm", "total_evidence")
def evidence_count(signals: Signals) -> Floats:
    """Number of cited quotes that really occur in the text shown to the judge."""
    return signals.number("llm_evidence_count", absent=0.0, low=0, whole=True)


@confidence_function("retrieval_similarity_mean")
def similarity_mean(signals: Signals) -> Floats:
    """Mean similarity between the cited quotes and the passages retrieved for them."""
    return signals.number("retrieval_similarity_mean", null=0.0)


@confidence_function("retrieval_similarity_max")
def similarity_max(signals: Signals) -> Floats:
    """Largest similarity between a cited quote and a passage retrieved for it."""
    return signals.number("retrieval_similarity_max", null=0.0)


@confidence_function("hybrid_evidence_similarity")
def hybrid_evidence_similarity(signals: Signals) -> Floats:
    """Half evidence, half similarity, each in [0, 1]."""
    return 0.5 * _evidence(signals) + 0.5 * _similarity(signals)


@confidence_function("verbalized")
def verbalized(signals: Signals) -> Floats:
    """The judge's stated confidence, 1–5, mapped to [0, 1]; 0.5 if it states none."""
    return (signals.number("verbalized_confidence", null=3.0, low=1, high=5, whole=True) - 1) / 4


@confidence_function("verbalized_centred")
def verbalized_centred(signals: Signals) -> Floats:
    """The judge's stated confidence, mapped to the middle of five equal parts: 0.1 to 0.9, never 0 or 1.

    For calibration: a few wrong fives at probability 1 push the temperature to its bound.
    """
    return (signals.number("verbalized_confidence", null=3.0, low=1, high=5, whole=True) - 0.5) / 5


@confidence_function("hybrid_verbalized")
def hybrid_verbalized(signals: Signals) -> Floats:
    """The judge's stated confidence, averaged with evidence and similarity."""
    return 0.4 * verbalized(signals) + 0.3 * _evidence(signals) + 0.3 * _similarity(signals)


@confidence_function("token_msp")
def token_msp(signals: Signals) -> Floats:
    """Mean probability of the tokens of the answer."""
    return signals.number("token_msp", low=0, high=1)


@confidence_function("token_pe")
def token_pe(signals: Signals) -> Floats:
    """1 / (1 + mean entropy of the tokens)."""
    return 1 / (1 + signals.number("token_pe", low=0))


@confidence_function("token_energy")
def token_energy(signals: Signals) -> Floats:
    """Exponential of the mean log-sum-exp of the tokens: their observed probability mass, at most 1."""
    return np.clip(np.exp(signals.number("token_energy", high=ENERGY_LIMIT)), 0, 1)


@confidence_function("consistency")
def consistency(signals: Signals) -> Floats:
    """Share of samples that gave the modal score."""
    return signals.number("consistency_modal_confidence", low=0, high=1)


@confidence_function("consistency_inverse_std")
def consistency_inverse_std(signals: Signals) -> Floats:
    """1 / (1 + standard deviation of the samples)."""
    return 1 / (1 + signals.number("consistency_score_std", low=0))


@confidence_function("hybrid_consistency")
def hybrid_consistency(signals: Signals) -> Floats:
    """Agreement of the samples, with evidence and similarity."""
    return 0.4 * consistency(signals) + 0.3 * _evidence(signals) + 0.3 * _similarity(signals)


ALL = tuple(name for name in REGISTERED if name != "verbalized_centred")
"""Meaning of ``--confidence all``: every base confidence but ``verbalized_centred``."""


def _evidence(signals: Signals) -> Floats:
    return np.minimum(evidence_count(signals), FULL_EVIDENCE_COUNT) / FULL_EVIDENCE_COUNT


def _similarity(signals: Signals) -> Floats:
    return np.clip(similarity_mean(signals), 0, 1)


SECONDARY, CALIBRATED = "secondary:", "calibrated:"

COMBINE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "average": lambda a, b: (a + b) / 2,
    "product": lambda a, b: a * b,
}


class CalibratorUse(msgspec.Struct, frozen=True, kw_only=True):
    """How a calibrator was applied (docs/definitions/calibration.md#cross-fitting).

    Attributes:
        method: Method of the calibrator.
        features: Signals that it reads.
        items: Number of items that it was applied to.
        own_groups: Number of these items in groups that it was fitted on.
        models: ``whole`` if the whole model gave every value, ``out of fold`` if each came from a model
            fitted without the item's group, ``mixed`` if both occur.
        groups_known: Whether the artifact lists the groups that it was fitted on.
    """

    method: str
    features: tuple[str, ...]
    items: int
    own_groups: int
    models: Literal["whole", "out of fold", "mixed"]
    groups_known: bool


class Confidence(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Confidences with their caveats.

    Attributes:
        variant: Name of the variant.
        values: Shape (n,), higher is more confident; NaN for unused items.
        warnings: Defaults used for missing signals, and reasons why a calibrator may not fit.
        calibrator: How a calibrator was applied; None if none was.
    """

    variant: str
    values: npt.NDArray[np.float64]
    warnings: tuple[str, ...] = ()
    calibrator: CalibratorUse | None = None


def confidence(
    variant: str,
    rows: Sequence[Row],
    *,
    calibrator: Calibrator | None = None,
    groups: Sequence[Hashable] | None = None,
    items: Sequence[object] | None = None,
    used: npt.ArrayLike | None = None,
) -> Confidence:
    """Compute the confidence of every item.

    Variants are a registered name (``token_msp``), ``secondary:<a>+<b>:<average|product>`` of two of those,
    ``calibrated:<either>`` with a temperature or isotonic calibrator (``verbalized_calibrated`` is
    ``calibrated:verbalized``), and ``calibrated`` with a supervised calibrator on its own signals.

    Args:
        variant: Name of the variant.
        rows: The signals of each item, n mappings of names to values.
        calibrator: For the calibrated variants.
        groups: The group of each item, for errors; a calibrator fitted on some of these groups uses its
            out-of-fold models for them.
        items: The name of each item, for errors.
        used: Which items have a prediction, shape (n,), bool; the signals of others are ignored.

    Raises:
        TrustError: If the variant is unknown, a calibrator is missing or of the wrong kind or was fitted on
            these groups without cross-fitting, or an item's signals do not give a finite confidence. The
            error names the key, variant, group and item.
    """
    requester = f'confidence "{variant}"'
    signals = Signals(rows, requested_by=requester, groups=groups, items=items, used=used)
    if variant == "calibrated":
        fitted = _require(calibrator, variant)
        if not fitted.supervised:
            raise TrustError(
                f"{requester} needs a calibrator fitted on signals; this one is {_described(fitted)}: "
                f'use "calibrated:{fitted.confidence or "NAME"}"'
            )
        x, notes = feature_matrix(
            rows, fitted.features, groups=groups, items=items, used=used, requested_by=requester
        )
        values, use = calibrated(fitted, x, groups)
        values = signals.finite(values)
        return Confidence(variant=variant, values=values, warnings=tuple(notes), calibrator=use)
    base = "verbalized" if variant == "verbalized_calibrated" else variant.removeprefix(CALIBRATED)
    values = signals.finite(_function(base, within=variant)(signals))
    notes = filled_in(signals)
    if base == variant:
        applied = None
    else:
        fitted = _require(calibrator, variant)
        if isinstance(fitted.model, LinearModel):
            raise TrustError(
                f"{requester} needs a temperature or isotonic calibrator; this one is {_described(fitted)}: "
                'use "calibrated", which reads its own signals'
            )
        notes += fitted.mismatch_warnings(base) + _clipping_warnings(fitted, values, base)
        values, applied = calibrated(fitted, values, groups)
        values = signals.finite(values)
    return Confidence(variant=variant, values=values, warnings=tuple(notes), calibrator=applied)


def calibrated(
    calibrator: Calibrator, x: npt.ArrayLike, groups: Sequence[Hashable] | None
) -> tuple[Floats, CalibratorUse]:
    """Calibrate every item whose features hold no NaN, and report how.

    Args:
        calibrator: The calibrator.
        x: Features (n, d), or one feature (n,).
        groups: The group of each item; None applies the whole model to all.

    Raises:
        TrustError: If the calibrator was fitted on one of these groups and has no cross-fitted models.
    """
    if groups is None:
        values, own_group_items = calibrator.apply(x), 0
    else:
        values, own_group_items = calibrator.apply_out_of_fold(x, groups)
    items = int(np.count_nonzero(~np.isnan(values)))
    crossed = 0 if calibrator.keeps_ranking else own_group_items
    return values, CalibratorUse(
        method=calibrator.method,
        features=calibrator.features,
        items=items,
        own_groups=own_group_items,
        models="whole" if not crossed else "out of fold" if crossed == items else "mixed",
        groups_known=calibrator.fitted_groups is not None,
    )


def named_variants(word: str) -> tuple[str, ...]:
    """The variants that a word stands for: ``all``, ``default``, or itself."""
    return {"all": ALL, "default": DEFAULT}.get(word, (word,))


def _function(name: str, *, within: str) -> ConfidenceFunction:
    """The confidence function of a base or secondary variant."""
    if not name.startswith(SECONDARY):
        return base_function(name, within=within)
    pair, _, mode = name.removeprefix(SECONDARY).rpartition(":")
    first, _, second = pair.partition("+")
    if not first or not second or mode not in COMBINE:
        raise TrustError(f'"{within}": expected secondary:<a>+<b>:<average|product>')
    one, other = base_function(first, within=within), base_function(second, within=within)
    combine = COMBINE[mode]
    return lambda signals: combine(one(signals), other(signals))


def _require(calibrator: Calibrator | None, variant: str) -> Calibrator:
    if calibrator is None:
        raise TrustError(f'confidence "{variant}" needs a calibrator, and none is given')
    return calibrator


def _described(calibrator: Calibrator) -> str:
    made_for = calibrator.confidence or ", ".join(calibrator.features)
    return f'"{calibrator.method}"' + (f" on {made_for}" if made_for else "")


def _clipping_warnings(calibrator: Calibrator, values: Floats, name: str) -> list[str]:
    """Warn that a temperature is applied to values outside [0, 1], which it clips, creating ties."""
    count = int(np.count_nonzero((values < 0) | (values > 1)))
    if calibrator.method != TEMPERATURE or not count:
        return []
    return [f'"{name}" lies outside [0, 1] in {count:,} items; the temperature treats those values as 0 or 1']
