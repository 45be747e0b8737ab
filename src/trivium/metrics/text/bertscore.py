"""The metric ``semantic``: compares texts by the token vectors of an encoder (BERTScore), in batches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np

from trivium.errors import EncoderUnavailable
from trivium.metrics.metric import MetricInput, Score, TextMetric
from trivium.metrics.registry import metric
from trivium.metrics.text.encoders.encoder import Encoder, Tokens, Vectors
from trivium.metrics.text.encoders.loading import encoder_name, load
from trivium.metrics.text.lexical import SizedCache
from trivium.suites.settings import Settings


class Match(NamedTuple):
    """BERTScore of two texts, each value in [0, 1].

    Attributes:
        precision: Mean similarity of each output token to the nearest reference token.
        recall: Mean similarity of each reference token to the nearest output token.
        f1: Harmonic mean of precision and recall.
        truncated: Whether either text was truncated at the encoder's limit.
    """

    precision: float
    recall: float
    f1: float
    truncated: bool = False


EQUAL = Match(1.0, 1.0, 1.0)
APART = Match(0.0, 0.0, 0.0)


def normalised(vectors: Vectors) -> Vectors:
    """Divide each row of ``vectors``, shape (tokens, width), by its length, in place."""
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def match(output: "Embedded", reference: "Embedded") -> Match:
    """Match each token with the nearest token of the other text by cosine similarity."""
    truncated = output.truncated or reference.truncated
    if not (len(output.vectors) and len(reference.vectors)):
        return APART._replace(truncated=truncated)
    near = output.vectors @ reference.vectors.T
    # Negative similarities count as 0, as in torchmetrics, whose special tokens are masked to zero vectors
    # that any token can match.
    precision = float(np.maximum(near.max(axis=1), 0).mean(dtype=np.float64))
    recall = float(np.maximum(near.max(axis=0), 0).mean(dtype=np.float64))
    both = precision + recall
    f1 = 2 * precision * recall / both if both else 0.0
    return Match(min(1.0, precision), min(1.0, recall), min(1.0, f1), truncated)


PAIRS_AT_ONCE = 64
"""Pairs encoded together: enough for batches of similar length, while memory stays bounded."""

Pair = tuple[str, str]


@metric("semantic")
class Semantic(TextMetric):
    """BERTScore F1 of output and reference: no idf, no rescaling, special tokens excluded.

    Definition: docs/definitions/text.md#semantic.

    Texts that are equal after ``strip()`` score 1; an empty text scores 0 against any other. Without an
    encoder the score is skipped; its reason says what to install or download.

    Attributes:
        encoder: A folder or a name on the Hugging Face hub; None for TRIVIUM_ENCODER or the default.
        layer: Hidden layer whose vectors are matched, 0 for the embeddings; None for the last.
    """

    uses_all_cores: ClassVar[bool] = True

    encoder: str | None = None
    layer: int | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric with the suite's encoder."""
        return cls(references=settings.references, encoder=settings.encoder)

    def check(self) -> None:
        """Check that a backend is installed; the encoder itself may be downloaded later."""
        encoder_name(self.encoder)

    def compare(self, output: str, reference: str) -> float:
        """BERTScore F1, in [0, 1].

        Raises:
            EncoderUnavailable: If the encoder cannot be loaded.
        """
        return self.compare_many([(output, reference)])[0]

    def compare_many(self, pairs: Sequence[Pair]) -> list[float]:
        """BERTScore F1 of several pairs, whose texts are encoded together; see :meth:`compare`."""
        compared = compare_pairs(load(self.encoder, layer=self.layer), pairs)
        return [compared[pair].f1 for pair in pairs]

    def score(self, metric_input: MetricInput) -> Score:
        """Score one attempt; skipped without an encoder."""
        (score,) = self.score_many([metric_input])
        return score

    def score_many(self, inputs: Sequence[MetricInput]) -> list[Score]:
        """Score several attempts; their texts are encoded together."""
        pairs = [[(given.attempt.text, text) for text in given.case.references] for given in inputs]
        if not any(pairs):
            return [self.skipped("the case has no reference") for _ in inputs]
        try:
            encoder = load(self.encoder, layer=self.layer)
        except EncoderUnavailable as error:
            return [self.skipped(str(error)) for _ in inputs]
        compared = compare_pairs(encoder, [pair for of_attempt in pairs for pair in of_attempt])
        return [self._reduced(encoder, [compared[pair] for pair in of_attempt]) for of_attempt in pairs]

    def _reduced(self, encoder: Encoder, compared: Sequence[Match]) -> Score:
        if not compared:
            return self.skipped("the case has no reference")
        return self.reduced(
            [each.f1 for each in compared],
            method=encoder.description,
            detail={
                "encoder": encoder.name,
                "revision": encoder.revision,
                "backend": encoder.backend,
                "precision": [each.precision for each in compared],
                "recall": [each.recall for each in compared],
                "truncated": any(each.truncated for each in compared),
            },
        )


def compare_pairs(encoder: Encoder, pairs: Sequence[Pair]) -> dict[Pair, Match]:
    """Compute the BERTScore of each distinct pair.

    Args:
        encoder: The encoder.
        pairs: (output, reference) pairs in any order; duplicates are computed once.
    """
    compared: dict[Pair, Match] = {}
    to_encode: list[Pair] = []
    for pair in dict.fromkeys(pairs):
        output, reference = pair[0].strip(), pair[1].strip()
        if output == reference:
            compared[pair] = EQUAL
        elif not (output and reference):
            compared[pair] = APART
        else:
            to_encode.append(pair)
    # Pairs with the same reference are adjacent, so that one encoding serves all of them.
    to_encode.sort(key=lambda pair: (len(pair[1]), pair[1], len(pair[0])))
    for start in range(0, len(to_encode), PAIRS_AT_ONCE):
        chunk = to_encode[start : start + PAIRS_AT_ONCE]
        embedded = embed(encoder, [output for output, _ in chunk], [reference for _, reference in chunk])
        compared |= {pair: match(embedded[pair[0]], embedded[pair[1]]) for pair in chunk}
    return compared


class Embedded(NamedTuple):
    """Normalised token vectors of a text, and whether it was truncated."""

    vectors: Vectors
    truncated: bool


# Capacity in bytes; a text of 250 tokens takes 0.4 to 0.8 MB.
_REFERENCES: SizedCache[Embedded] = SizedCache(capacity=32_000_000)


def embed(encoder: Encoder, outputs: Iterable[str], references: Iterable[str]) -> dict[str, Embedded]:
    """Encode texts, and return their vectors by text.

    The vectors of references are cached, because later outputs are often compared with the same ones.

    Args:
        encoder: The encoder.
        outputs: Texts that are not cached.
        references: Texts that are cached.
    """
    known: dict[str, Embedded] = {}
    cacheable = dict.fromkeys(references)
    name = encoder.description
    for text in cacheable:
        cached = _REFERENCES.get((name, text))
        if cached is not None:
            known[text] = cached
    new = [text for text in dict.fromkeys([*cacheable, *outputs]) if text not in known]
    tokens = encoder.tokenise(new)
    # Few texts are split into small batches, so that every worker has one.
    share = -(-sum(len(each.ids) for each in tokens) // encoder.workers)
    batches = list(_batches(tokens, min(share, encoder.tokens_at_once)))
    encoded = encoder.encode([tokens[index] for index in batch] for batch in batches)
    for batch, batch_vectors in zip(batches, encoded, strict=True):
        for index, vectors in zip(batch, batch_vectors, strict=True):
            known[new[index]] = made = Embedded(normalised(vectors), tokens[index].truncated)
            if new[index] in cacheable:
                _REFERENCES.put((name, new[index]), made, made.vectors.nbytes)
    return known


def _batches(tokens: Sequence[Tokens], tokens_at_once: int) -> Iterator[list[int]]:
    """Yield batches of indices of texts of similar length, longest first, to keep padding short."""
    by_length = sorted(range(len(tokens)), key=lambda index: -len(tokens[index].ids))
    batch: list[int] = []
    for index in by_length:
        if batch and (len(batch) + 1) * len(tokens[batch[0]].ids) > tokens_at_once:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
