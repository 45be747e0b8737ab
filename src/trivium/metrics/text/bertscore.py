"""Compares texts by the token vectors of an encoder (BERTScore), in batches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from trivium.errors import EncoderUnavailable
from trivium.metrics.metric import MetricInput, Score, TextMetric
from trivium.metrics.registry import metric
from trivium.metrics.text.encoders.encoder import Encoder, Tokens, Vectors, describe
from trivium.metrics.text.encoders.loading import encoder_name, load
from trivium.metrics.text.lexical import SizedCache
from trivium.suites.settings import Settings


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


PAIRS_AT_ONCE = 64
"""Pairs whose vectors are held at once: enough for batches of like length, and memory stays flat."""

Pair = tuple[str, str]


class Compared(NamedTuple):
    """How output and reference match, and whether either was cut at the encoder's limit."""

    match: Match
    truncated: bool


@metric("semantic")
class Semantic(TextMetric):
    """BERTScore F1 of output and reference: no idf, no rescaling, special tokens left out.

    Two texts that are equal after ``strip()`` score 1, an empty one 0. Without an encoder the score is
    skipped, with what to install or fetch.

    Attributes:
        encoder: A folder or a name on the Hugging Face hub; None leaves it to TRIVIUM_ENCODER and the
            defaults.
        layer: Hidden layer whose vectors are matched, 0 for the embeddings; None for the last.
    """

    encoder: str | None = None
    layer: int | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's encoder."""
        return cls(references=settings.references, encoder=settings.encoder)

    def check(self) -> None:
        """Refuse to be measured where no backend is installed; the encoder itself may be fetched later."""
        encoder_name(self.encoder)

    def compare(self, output: str, reference: str) -> float:
        """BERTScore F1, in [0, 1].

        Raises:
            EncoderUnavailable: If the encoder cannot be had.
        """
        pair = (output, reference)
        return compare_pairs(load(self.encoder, layer=self.layer), [pair])[pair].match.f1

    def score(self, metric_input: MetricInput) -> Score:
        """The score of one attempt; skipped without an encoder."""
        (score,) = self.score_many([metric_input])
        return score

    def score_many(self, inputs: Sequence[MetricInput]) -> list[Score]:
        """Scores of several attempts, their texts encoded together."""
        pairs = [[(each.attempt.text, text) for text in each.case.references] for each in inputs]
        if not any(pairs):
            return [self.skipped("the case has no reference") for _ in inputs]
        try:
            encoder = load(self.encoder, layer=self.layer)
        except EncoderUnavailable as error:
            return [self.skipped(str(error)) for _ in inputs]
        compared = compare_pairs(encoder, [pair for own in pairs for pair in own])
        return [self._of(encoder, [compared[pair] for pair in own]) for own in pairs]

    def _of(self, encoder: Encoder, compared: Sequence[Compared]) -> Score:
        if not compared:
            return self.skipped("the case has no reference")
        return self.reduced(
            [each.match.f1 for each in compared],
            method=describe(encoder),
            detail={
                "encoder": encoder.name,
                "revision": encoder.revision,
                "backend": encoder.backend,
                "precision": [each.match.precision for each in compared],
                "recall": [each.match.recall for each in compared],
                "truncated": any(each.truncated for each in compared),
            },
        )


def compare_pairs(encoder: Encoder, pairs: Sequence[Pair]) -> dict[Pair, Compared]:
    """How the texts of each distinct pair match.

    Args:
        encoder: What turns texts into vectors.
        pairs: (output, reference), in any order, repeats included.
    """
    compared: dict[Pair, Compared] = {}
    due: list[Pair] = []
    for pair in dict.fromkeys(pairs):
        output, reference = pair[0].strip(), pair[1].strip()
        if output == reference:
            compared[pair] = Compared(EQUAL, truncated=False)
        elif not (output and reference):
            compared[pair] = Compared(APART, truncated=False)
        else:
            due.append(pair)
    # Pairs of one reference stand together, so that it is encoded once however many share it.
    due.sort(key=lambda pair: (len(pair[1]), pair[1], len(pair[0])))
    for start in range(0, len(due), PAIRS_AT_ONCE):
        chunk = due[start : start + PAIRS_AT_ONCE]
        seen = embed(encoder, [output for output, _ in chunk], [reference for _, reference in chunk])
        for output, reference in chunk:
            ours, theirs = seen[output], seen[reference]
            compared[output, reference] = Compared(
                match(ours.vectors, theirs.vectors), ours.truncated or theirs.truncated
            )
    return compared


class Embedded(NamedTuple):
    """A text as the encoder sees it: normalised vectors of its tokens, and whether it was cut."""

    vectors: Vectors
    truncated: bool


# Capacity in bytes; a text of 250 tokens takes 0.4 to 0.8 MB.
_REFERENCES: SizedCache[Embedded] = SizedCache(capacity=32_000_000)


def embed(encoder: Encoder, outputs: Iterable[str], references: Iterable[str]) -> dict[str, Embedded]:
    """The vectors of every text, by text.

    References of earlier calls are remembered, as the next outputs are often compared with the same.

    Args:
        encoder: What makes them.
        outputs: Texts that are needed now.
        references: Texts that may be needed again.
    """
    known: dict[str, Embedded] = {}
    kept = dict.fromkeys(references)
    maker = describe(encoder)
    for text in kept:
        seen = _REFERENCES.get((maker, text))
        if seen is not None:
            known[text] = seen
    new = [text for text in dict.fromkeys([*kept, *outputs]) if text not in known]
    tokens = encoder.tokenise(new)
    # Few texts make small batches, so that every worker has one.
    share = -(-sum(len(each.ids) for each in tokens) // encoder.workers)
    batches = list(_batches(tokens, min(share, encoder.tokens_at_once)))
    encoded = encoder.encode([tokens[index] for index in batch] for batch in batches)
    for batch, found in zip(batches, encoded, strict=True):
        for index, vectors in zip(batch, found, strict=True):
            known[new[index]] = made = Embedded(normalised(vectors), tokens[index].truncated)
            if new[index] in kept:
                _REFERENCES.put((maker, new[index]), made, made.vectors.nbytes)
    return known


def _batches(tokens: Sequence[Tokens], tokens_at_once: int) -> Iterator[list[int]]:
    """Indices of texts of like length, so that little is padded; the longest first."""
    by_length = sorted(range(len(tokens)), key=lambda index: -len(tokens[index].ids))
    batch: list[int] = []
    for index in by_length:
        if batch and (len(batch) + 1) * len(tokens[batch[0]].ids) > tokens_at_once:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
