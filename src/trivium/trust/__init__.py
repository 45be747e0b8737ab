"""Statistics of evaluations on plain arrays; nothing here depends on suites, runs or files.

Each name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trivium.trust.active_inference import ActiveMean as ActiveMean
    from trivium.trust.active_inference import active_mean as active_mean
    from trivium.trust.active_sampling import Draw as Draw
    from trivium.trust.active_sampling import Sampling as Sampling
    from trivium.trust.active_sampling import next_draw as next_draw
    from trivium.trust.bias_correction import corrected_mean as corrected_mean
    from trivium.trust.bias_correction import corrected_rate as corrected_rate
    from trivium.trust.calibration.calibrator import Calibrator as Calibrator
    from trivium.trust.calibration.calibrator import calibrator_from_json as calibrator_from_json
    from trivium.trust.calibration.fitting import fit_calibrator as fit_calibrator
    from trivium.trust.calibration.quality import auroc as auroc
    from trivium.trust.calibration.quality import brier_score as brier_score
    from trivium.trust.calibration.quality import expected_calibration_error as expected_calibration_error
    from trivium.trust.calibration.quality import negative_log_likelihood as negative_log_likelihood
    from trivium.trust.calibration.quality import reliability as reliability
    from trivium.trust.certification import certify as certify
    from trivium.trust.certification import labels_needed as labels_needed
    from trivium.trust.change_detection import ChangeDetector as ChangeDetector
    from trivium.trust.cluster_bootstrap import BootstrapOptions as BootstrapOptions
    from trivium.trust.cluster_bootstrap import Estimate as Estimate
    from trivium.trust.cluster_bootstrap import Groups as Groups
    from trivium.trust.cluster_bootstrap import bootstrap as bootstrap
    from trivium.trust.clustered import ClusteredMean as ClusteredMean
    from trivium.trust.confidence.functions import confidence_function as confidence_function
    from trivium.trust.confidence.signals import Signals as Signals
    from trivium.trust.distributions import Interval as Interval
    from trivium.trust.intervals import gate_answer as gate_answer
    from trivium.trust.intervals import groups_to_settle as groups_to_settle
    from trivium.trust.intervals import mean_interval as mean_interval
    from trivium.trust.intervals import probability_of_change as probability_of_change
    from trivium.trust.intervals import rate_interval as rate_interval
    from trivium.trust.level_sequence import LevelSequence as LevelSequence
    from trivium.trust.paired import holm as holm
    from trivium.trust.paired import minimum_detectable_effect as minimum_detectable_effect
    from trivium.trust.paired import sign_counts as sign_counts
    from trivium.trust.paired import sign_test as sign_test
    from trivium.trust.paired import win_counts as win_counts
    from trivium.trust.rater_agreement import agreement as agreement
    from trivium.trust.rater_agreement import krippendorff_alpha as krippendorff_alpha
    from trivium.trust.selective.curve import augrc as augrc
    from trivium.trust.selective.curve import aurc as aurc
    from trivium.trust.selective.curve import optimal_curve as optimal_curve
    from trivium.trust.selective.curve import risk_at as risk_at
    from trivium.trust.selective.curve import risk_coverage as risk_coverage
    from trivium.trust.selective.inference import bootstrap_deltas as bootstrap_deltas
    from trivium.trust.selective.inference import bootstrap_selective_metrics as bootstrap_selective_metrics
    from trivium.trust.selective.inference import selective_metrics as selective_metrics
    from trivium.trust.selective.items import Items as Items
    from trivium.trust.selective.items import losses as losses
    from trivium.trust.sequential_mean import SequentialMean as SequentialMean
    from trivium.trust.sequential_mean import sequential_interval as sequential_interval
    from trivium.trust.weighted_means import WeightedMean as WeightedMean
    from trivium.trust.weighted_means import reference_level as reference_level
    from trivium.trust.weighted_means import weighted_mean as weighted_mean

_HOMES = {
    "active_inference": ("ActiveMean", "active_mean"),
    "active_sampling": ("Draw", "Sampling", "next_draw"),
    "bias_correction": ("corrected_mean", "corrected_rate"),
    "calibration.calibrator": ("Calibrator", "calibrator_from_json"),
    "calibration.fitting": ("fit_calibrator",),
    "calibration.quality": (
        "auroc",
        "brier_score",
        "expected_calibration_error",
        "negative_log_likelihood",
        "reliability",
    ),
    "certification": ("certify", "labels_needed"),
    "change_detection": ("ChangeDetector",),
    "cluster_bootstrap": ("BootstrapOptions", "Estimate", "Groups", "bootstrap"),
    "clustered": ("ClusteredMean",),
    "confidence.functions": ("confidence_function",),
    "confidence.signals": ("Signals",),
    "distributions": ("Interval",),
    "intervals": (
        "gate_answer",
        "mean_interval",
        "groups_to_settle",
        "probability_of_change",
        "rate_interval",
    ),
    "level_sequence": ("LevelSequence",),
    "paired": ("holm", "minimum_detectable_effect", "sign_test", "sign_counts", "win_counts"),
    "rater_agreement": ("agreement", "krippendorff_alpha"),
    "selective.curve": ("augrc", "aurc", "optimal_curve", "risk_at", "risk_coverage"),
    "selective.inference": (
        "bootstrap_deltas",
        "bootstrap_selective_metrics",
        "selective_metrics",
    ),
    "selective.items": ("Items", "losses"),
    "sequential_mean": ("SequentialMean", "sequential_interval"),
    "weighted_means": ("WeightedMean", "reference_level", "weighted_mean"),
}
"""The names of each module."""

_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'trivium.trust' has no attribute {name!r}")
    value = getattr(import_module(f"trivium.trust.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
