"""BERTScore F1 against the references (spec: metrics, T1.3)."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from trivium.errors import EncoderUnavailable
from trivium.metrics.metric import Subject, TextMetric, metric
from trivium.metrics.score import Score
from trivium.metrics.text.embedding import embed
from trivium.metrics.text.encoders.encoder import Encoder, describe
from trivium.metrics.text.encoders.loading import encoder_name, load
from trivium.metrics.text.matching import APART, EQUAL, Match, match
from trivium.suites.settings import Settings

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

    def score(self, subject: Subject) -> Score:
        """The score of one attempt; skipped without an encoder."""
        (score,) = self.score_many([subject])
        return score

    def score_many(self, subjects: Sequence[Subject]) -> list[Score]:
        """Scores of several attempts, their texts encoded together."""
        pairs = [[(each.attempt.text, text) for text in each.case.references] for each in subjects]
        if not any(pairs):
            return [self.skipped("the case has no reference") for _ in subjects]
        try:
            encoder = load(self.encoder, layer=self.layer)
        except EncoderUnavailable as error:
            return [self.skipped(str(error)) for _ in subjects]
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
