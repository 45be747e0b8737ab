"""Vectors of many texts: each distinct one encoded once, in batches of like length."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trivium.metrics.text.encoders.encoder import Encoder, Vectors, describe
from trivium.metrics.text.encoders.tokens import Tokens
from trivium.metrics.text.matching import normalised
from trivium.metrics.text.seen import Seen


class Embedded(NamedTuple):
    """A text as the encoder sees it: normalised vectors of its tokens, and whether it was cut."""

    vectors: Vectors
    truncated: bool


_REFERENCES: Seen[Embedded] = Seen(room=32_000_000)  # bytes; a text of 250 tokens takes 0.4 to 0.8 MB


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
                _REFERENCES.keep((maker, new[index]), made, made.vectors.nbytes)
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
