"""The confidence functions that come with Trivium (spec: metrics, S.9)."""

import numpy as np

from trivium.trust.confidence.registry import confidence_function
from trivium.trust.confidence.signals import Floats, Signals

ALL = (
    "llm",
    "total_evidence",
    "retrieval_similarity_mean",
    "retrieval_similarity_max",
    "hybrid_evidence_similarity",
    "verbalized",
    "hybrid_verbalized",
    "token_msp",
    "token_pe",
    "token_energy",
    "consistency",
    "consistency_inverse_std",
    "hybrid_consistency",
)
"""What ``--confidence all`` means: every base confidence of the specification."""

DEFAULT = ("llm", "total_evidence")
"""What ``--confidence default`` means, as in the tool that wrote the first artifacts."""

SURE_COUNT = 3
"""Cited quotes from which on the evidence counts as full."""

ENERGY_LIMIT = 709.0
"""Largest energy (nats) whose exponential a double can hold."""


@confidence_function("llm", "total_evidence")
def evidence_count(signals: Signals) -> Floats:
    """Number of cited quotes that really occur in what the judge was shown."""
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
    """What the judge says of itself, 1–5, mapped to [0, 1]; 0.5 where it says nothing."""
    return (signals.number("verbalized_confidence", null=3.0, low=1, high=5, whole=True) - 1) / 4


@confidence_function("verbalized_centred")
def verbalized_centred(signals: Signals) -> Floats:
    """What the judge says of itself, mapped to the middle of five equal parts: 0.1 to 0.9, never 0 or 1.

    For calibration: a few wrong fives at probability 1 push the temperature to its bound.
    """
    return (signals.number("verbalized_confidence", null=3.0, low=1, high=5, whole=True) - 0.5) / 5


@confidence_function("hybrid_verbalized")
def hybrid_verbalized(signals: Signals) -> Floats:
    """What the judge says of itself, with evidence and similarity."""
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
    """Exponential of the mean log-sum-exp of the tokens: the probability mass that was seen, at most 1."""
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


def _evidence(signals: Signals) -> Floats:
    return np.minimum(evidence_count(signals), SURE_COUNT) / SURE_COUNT


def _similarity(signals: Signals) -> Floats:
    return np.clip(similarity_mean(signals), 0, 1)
