"""What the semantic metric asks of an encoder, whatever runs it."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from trivium.metrics.text.encoders.tokens import Tokens

Vectors = NDArray[np.float32]
"""One row a token, shape (tokens, width)."""

Backend = Literal["onnx", "torch"]


class Encoder(Protocol):
    """A loaded model with its tokeniser. Scores of unlike encoders are not compared (spec: metrics, T1.3).

    Attributes:
        name: As on the hub, or the name of the local folder.
        revision: Commit on the hub, or a digest of the weights.
        backend: What runs it.
        layer: Hidden layer whose vectors it gives, None for the last.
        max_tokens: Tokens of the longest text, special ones included; longer texts are cut there.
        tokens_at_once: Padded tokens of a batch that runs well here.
        workers: Batches that are encoded at once.
    """

    name: str
    revision: str
    backend: Backend
    layer: int | None
    max_tokens: int
    tokens_at_once: int
    workers: int

    def tokenise(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of each text, cut to what the model can read."""
        ...

    def encode(self, batches: Iterable[Sequence[Tokens]]) -> Iterator[list[Vectors]]:
        """Of each batch the vectors of each text's own tokens, the special ones left out."""
        ...


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_core_each(
    encode: Callable[[Sequence[Tokens]], list[Vectors]],
    batches: Iterable[Sequence[Tokens]],
    *,
    workers: int,
    begin: Callable[[], None] | None = None,
) -> Iterator[list[Vectors]]:
    """Encode batches side by side, each on one core.

    That is quicker than each batch on every core: its layers are small, and cores that wait for each other at
    the end of every one of them spin, most of all on a machine that is busy.

    Args:
        encode: Safe in several threads.
        batches: In any number.
        workers: Threads.
        begin: Called in each thread before its first batch.
    """
    with ThreadPoolExecutor(workers, initializer=begin) as pool:
        yield from pool.map(encode, batches)


def describe(encoder: Encoder) -> str:
    """One phrase that tells encoders apart: ``all-MiniLM-L6-v2@c9745ed1d9f2 (onnx)``."""
    layer = "" if encoder.layer is None else f", layer {encoder.layer}"
    return f"{encoder.name}@{encoder.revision[:12]} ({encoder.backend}{layer})"


def padded(batch: Sequence[Tokens], pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids and attention mask of a batch, each of shape (texts, tokens of the longest text)."""
    shape = (len(batch), max(len(tokens.ids) for tokens in batch))
    ids, mask = np.full(shape, pad, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens.ids)] = tokens.ids
        mask[row, : len(tokens.ids)] = 1
    return ids, mask


def own_vectors(batch: Sequence[Tokens], hidden: Any) -> list[Vectors]:
    """The rows of each text's own tokens, copied out of shape (texts, tokens, width)."""
    return [
        np.array(hidden[row, tokens.start : tokens.stop], dtype=np.float32)
        for row, tokens in enumerate(batch)
    ]
