"""BERTScore of two texts from the vectors of their tokens (Zhang et al. 2020; spec: metrics, T1.3)."""

from typing import NamedTuple

import numpy as np

from trivium.metrics.text.encoders.encoder import Vectors


class Match(NamedTuple):
    """How well two texts match, each in [0, 1].

    Attributes:
        precision: How well the output's tokens are matched by the reference's.
        recall: How well the reference's tokens are matched by the output's.
        f1: Harmonic mean of both.
    """

    precision: float
    recall: float
    f1: float


EQUAL = Match(1.0, 1.0, 1.0)
APART = Match(0.0, 0.0, 0.0)


def normalised(vectors: Vectors) -> Vectors:
    """The vectors, shape (tokens, width), each divided by its length."""
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def match(output: Vectors, reference: Vectors) -> Match:
    """Greedy matching by cosine: each token with the nearest of the other text.

    Args:
        output: Normalised vectors, shape (n, width).
        reference: Normalised vectors, shape (m, width).
    """
    if not (len(output) and len(reference)):
        return APART
    near = output @ reference.T
    # A token that is opposite to all others counts 0, as in torchmetrics, where the special tokens,
    # masked to zero vectors, can be matched.
    precision = float(np.maximum(near.max(axis=1), 0).mean(dtype=np.float64))
    recall = float(np.maximum(near.max(axis=0), 0).mean(dtype=np.float64))
    both = precision + recall
    f1 = 2 * precision * recall / both if both else 0.0
    return Match(min(1.0, precision), min(1.0, recall), min(1.0, f1))
