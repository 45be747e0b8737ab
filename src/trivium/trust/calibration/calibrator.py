"""A fitted calibrator with its provenance, as a record and as JSON.

Definition: docs/definitions/calibration.md#cross-fitting.
"""

from collections.abc import Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.display import HtmlRepr
from trivium.errors import Problem, TrustError, suggest
from trivium.trust.arrays import Floats
from trivium.trust.calibration.methods import Isotonic, LinearModel, Temperature, check_target
from trivium.values import JsonObject

SCHEMA_VERSION = "1"

TEMPERATURE = "temperature_scaling"

MODELS: dict[str, type[Temperature | LinearModel | Isotonic]] = {
    TEMPERATURE: Temperature,
    "logistic": LinearModel,
    "platt": LinearModel,
    "isotonic": Isotonic,
}
"""Model of each ``method`` of an artifact.

A linear calibrator is ``logistic`` with the link ``identity``, as in the original tool."""

SIGNAL_OF_CONFIDENCE = {
    "llm": "llm_evidence_count",
    "total_evidence": "llm_evidence_count",
    "retrieval_similarity_mean": "retrieval_similarity_mean",
    "retrieval_similarity_max": "retrieval_similarity_max",
    "token_msp": "token_msp",
    "consistency": "consistency_modal_confidence",
}
"""Confidences that equal a signal, with that signal."""

NOT_FITTED = -1
"""Fold number of a group that the calibrator was not fitted on."""

_FIELDS: dict[str, Any] = {
    "features": tuple[str, ...],
    "target": str | None,
    "confidence": str | None,
    "training_metadata": JsonObject,
    "metrics": JsonObject,
    "warnings": tuple[str, ...],
    "fitted_groups": dict[str, Annotated[int, msgspec.Meta(ge=0)]] | None,
}
_OLDER_KEYS = {"training_metadata": "fitted_on", "metrics": "validation_metrics"}

PROVENANCE_KEYS = ("judges", "prompts")
"""Keys of the training metadata that should be the same where a calibrator is used, if both sides have them.
"""


class Calibrator(HtmlRepr, msgspec.Struct, frozen=True, kw_only=True):
    """A fitted calibrator.

    Definition: docs/definitions/calibration.md#cross-fitting.

    Attributes:
        method: One of ``MODELS``.
        model: The fitted model.
        features: The signals it reads, in order; or the one confidence it was fitted on.
        target: What it predicts; None if an old artifact does not state it.
        confidence: The confidence function whose values it was fitted on; None if fitted on signals.
        training_metadata: Origin and size of the training data.
        metrics: Its quality: ``cross_fitted`` (the one to quote), ``in_sample``, ``uncalibrated``.
        warnings: Caveats for its users.
        fitted_groups: The fold of each group it was fitted on, by the digest of the group's id; None if an
            artifact does not list them.
        fold_models: One model per fold, fitted without the groups of that fold; empty without cross-fitting.
    """

    method: str
    model: Temperature | LinearModel | Isotonic
    features: tuple[str, ...] = ()
    target: str | None = None
    confidence: str | None = None
    training_metadata: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    fitted_groups: dict[str, int] | None = None
    fold_models: tuple[Temperature | LinearModel | Isotonic, ...] = ()

    @property
    def supervised(self) -> bool:
        """Whether it can be applied to its own signals (``--confidence calibrated``)."""
        return self.method != TEMPERATURE and self.confidence is None

    @property
    def scalar(self) -> bool:
        """Whether it can be applied to any one confidence (``--confidence calibrated:NAME``)."""
        return not isinstance(self.model, LinearModel)

    @property
    def keeps_ranking(self) -> bool:
        """Whether it preserves the order of the items, so that AURC and AUGRC cannot change."""
        return self.method == TEMPERATURE

    def apply(self, x: npt.ArrayLike) -> Floats:
        """Calibrate features, shape (n, d) or (n,); return probabilities, shape (n,), in [0, 1]."""
        return _applied(self.model, self._matrix(x))

    def apply_out_of_fold(self, x: npt.ArrayLike, groups: Sequence[Hashable]) -> tuple[Floats, int]:
        """Calibrated values from models that were not fitted on the item's group.

        Definition: docs/definitions/calibration.md#cross-fitting.

        Rows of groups that the calibrator was fitted on get the value of the model fitted without their fold;
        all others get that of the whole model. A temperature preserves the order of the items in any case, so
        it is always applied whole.

        Args:
            x: Features (n, d), or one feature (n,); rows that hold a NaN are skipped.
            groups: The id of each row's group, n of them.

        Returns:
            Values, shape (n,), NaN for skipped rows; and the number of rows in groups that the calibrator was
            fitted on.

        Raises:
            TrustError: If there are such rows and the calibrator has no cross-fitted models.
        """
        matrix = self._matrix(x)
        complete = ~np.isnan(matrix).any(axis=1)
        known = self.fitted_groups or {}
        folds = {group: known.get(group_digest(group), NOT_FITTED) for group in dict.fromkeys(groups)}
        fold = np.array([folds[group] for group in groups], dtype=np.int64)
        fitted = complete & (fold != NOT_FITTED)
        if fitted.any() and not self.keeps_ranking and not self.fold_models:
            reason = self.metrics.get("cross_fitted_reason")
            raise TrustError(
                f"the calibrator was fitted on the groups of {np.count_nonzero(fitted):,} of these "
                f"{np.count_nonzero(complete):,} items, and has no cross-fitted models to use for them"
                f"{f' ({reason})' if reason else ''}: calibrate on other groups"
            )
        values = np.full(complete.shape, np.nan)
        for number in np.unique(fold[complete]):
            rows = complete & (fold == number)
            whole = number == NOT_FITTED or self.keeps_ranking
            values[rows] = _applied(self.model if whole else self.fold_models[number], matrix[rows])
        return values, int(fitted.sum())

    def _matrix(self, x: npt.ArrayLike) -> Floats:
        """Features as rows, shape (n, d)."""
        matrix = np.asarray(x, dtype=np.float64)
        if matrix.ndim == 1:
            matrix = matrix[:, None]
        width = max(1, len(self.features))
        if matrix.ndim != 2 or matrix.shape[1] != width:
            raise TrustError(f"the calibrator reads {width} features; found shape {matrix.shape}")
        return matrix

    def mismatch_warnings(self, confidence: str) -> list[str]:
        """Warn if it was fitted on another confidence than the one it is applied to."""
        made_for = self.confidence or (self.features[0] if len(self.features) == 1 else None)
        if made_for is None or made_for in {confidence, SIGNAL_OF_CONFIDENCE.get(confidence)}:
            return []
        return [f'the calibrator was fitted on "{made_for}" and is applied to "{confidence}"']

    def provenance_warnings(self, provenance: Mapping[str, Any]) -> list[str]:
        """Warn if it was fitted on other judges or prompts than those of a run.

        Args:
            provenance: ``judges`` and ``prompts`` of the run, any JSON values.

        Returns:
            One line per difference; keys that either side lacks are ignored.
        """
        known = [key for key in PROVENANCE_KEYS if key in self.training_metadata and key in provenance]
        return [
            f"the calibrator was fitted on other {key}: {before!r}, not {provenance[key]!r}"
            for key in known
            if (before := self.training_metadata[key]) != provenance[key]
        ]

    def to_json(self) -> dict[str, Any]:
        """The artifact as a JSON object, which the original tool can read too."""
        plain: JsonObject = msgspec.json.decode(msgspec.json.encode(self))
        artifact = {"schema_version": SCHEMA_VERSION, **plain}
        if isinstance(self.model, Temperature):
            artifact["temperature"] = self.model.temperature
        if "in_sample" in self.metrics:
            artifact["validation_metrics"] = self.metrics["in_sample"]
        return artifact


def calibrator_from_json(artifact: object) -> Calibrator:
    """Read an artifact written by Trivium or the original tool; unknown keys are ignored.

    Raises:
        TrustError: If a part is missing, has another type, or contradicts the others.
    """
    if not isinstance(artifact, Mapping):
        raise TrustError(f"a calibrator is a JSON object; found {type(artifact).__name__}")
    version = artifact.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise _error("schema_version", f'must be "{SCHEMA_VERSION}"; found {version!r}')
    method = artifact.get("method")
    if not isinstance(method, str) or method not in MODELS:
        hint = suggest(method, MODELS) if isinstance(method, str) else ""
        raise _error("method", f"must be one of {', '.join(MODELS)}; found {method!r}.{hint}")
    given = dict(artifact)
    if given.get("model") is None and method == TEMPERATURE:
        given["model"] = {"temperature": given.get("temperature")}
    kind: Any = MODELS[method]
    fields = {}
    for key, read_as in {"model": kind, **_FIELDS, "fold_models": tuple[kind, ...]}.items():
        name = _OLDER_KEYS.get(key, key) if given.get(key) in (None, {}) else key
        if given.get(name) is not None or key == "model":
            try:
                fields[key] = msgspec.convert(given.get(name), type=read_as)
            except msgspec.ValidationError as error:
                raise _error(name, str(error)) from error
    calibrator = Calibrator(method=method, **fields)
    _check(calibrator)
    return calibrator


def group_digest(group: object) -> str:
    """Digest of a group's id, stored in artifacts: it identifies the group without revealing the id."""
    return blake2b(str(group).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _applied(model: Temperature | LinearModel | Isotonic, matrix: Floats) -> Floats:
    return model.apply(matrix if isinstance(model, LinearModel) else matrix[:, 0])


def _check(calibrator: Calibrator) -> None:
    features = calibrator.features
    folds = (calibrator.fitted_groups or {}).values()
    if calibrator.fold_models and max(folds, default=0) >= len(calibrator.fold_models):
        found = f"{max(folds)} with {len(calibrator.fold_models)} fold_models"
        raise _error("fitted_groups", f"must number folds from 0, one per model; found fold {found}")
    if calibrator.target is not None:
        check_target(calibrator.target)
    elif calibrator.method != TEMPERATURE:
        raise _error("target", f"is needed by method {calibrator.method!r}")
    if isinstance(calibrator.model, LinearModel):
        wanted = len(calibrator.model.coefficients)
        if len(features) != wanted:
            raise _error("features", f"must be {wanted}, one per coefficient; found {len(features)}")
        if any(
            isinstance(model, LinearModel) and len(model.coefficients) != wanted
            for model in calibrator.fold_models
        ):
            raise _error("fold_models", f"must have {wanted} coefficients each, like the model")
        if calibrator.method == "platt" and wanted != 1:
            raise _error("features", f'method "platt" has exactly one; found {wanted}')
    elif len(features) != 1 and (features or calibrator.method == "isotonic"):
        raise _error("features", f'method "{calibrator.method}" has exactly one; found {len(features)}')


def _error(key: str, what: str) -> TrustError:
    return TrustError(Problem(f"calibrator.{key}", what))
