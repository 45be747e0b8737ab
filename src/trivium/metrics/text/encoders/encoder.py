"""Defines what an encoder does, tokenises texts, and limits their length to what a model takes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trivium.errors import EncoderUnavailable
from trivium.suites.sanitize import clean

_WITHOUT_LIMIT = 512
"""Where neither the model nor its tokeniser names a limit (relative positions), the usual one of encoders."""

_PADDED_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "xmod", "data2vec-text"}
)
"""Models that count positions from behind the padding token's id, so that so many fewer are left."""


def max_tokens(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int:
    """Tokens of the longest text that a model reads, special ones included.

    Args:
        config: The model's ``config.json``.
        tokenizer_config: Its ``tokenizer_config.json``.
    """
    limits = []
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and positions > 0:
        lost = (config.get("pad_token_id") or 0) + 1 if config.get("model_type") in _PADDED_POSITIONS else 0
        limits.append(positions - lost)
    stated = tokenizer_config.get("model_max_length")
    if isinstance(stated, int | float) and 0 < stated < 1e9:  # "no limit" is written as 1e30
        limits.append(int(stated))
    return min(limits, default=_WITHOUT_LIMIT)


_HEAD_PER_TOKEN = 100
"""Characters a token that a long text is first cut to; a longer average per token is rare."""


class Tokens(NamedTuple):
    """Tokens of one text.

    Attributes:
        ids: With the special tokens at both ends.
        start: Index of the text's own first token.
        stop: Index after its own last token.
        truncated: Whether the text went on beyond the model's limit.
    """

    ids: list[int]
    start: int
    stop: int
    truncated: bool


class Tokeniser:
    """A fast tokeniser of the ``tokenizers`` library, with the limit of its model.

    Args:
        tokenizer: A ``tokenizers.Tokenizer``. Its own truncation and padding are switched off.
        max_tokens: Tokens of the longest text, special ones included.
    """

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.max_tokens = max_tokens
        self._own = max_tokens - tokenizer.num_special_tokens_to_add(is_pair=False)
        if self._own < 1:
            raise EncoderUnavailable(f"the encoder's limit of {max_tokens} tokens leaves none for a text")

    def __call__(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of each text."""
        # A text may hold megabytes of which the model reads a page: its head will do, where the head
        # alone has tokens to spare.
        head = _HEAD_PER_TOKEN * self.max_tokens
        encodings = self._encodings([text[:head] for text in texts])
        for index, text in enumerate(texts):
            if len(text) > head and len(encodings[index].ids) <= 2 * self.max_tokens:
                (encodings[index],) = self._encodings([text])
        return [self._cut(encoding) for encoding in encodings]

    def _encodings(self, texts: Sequence[str]) -> list[Any]:
        encodings: list[Any] = self._tokenizer.encode_batch_fast([clean(text)[0] for text in texts])
        return encodings

    def _cut(self, encoding: Any) -> Tokens:
        """An encoding with special tokens at its ends, less the own tokens beyond the limit.

        A text may spell a special token; only those that the tokeniser itself put at the ends are left
        out, as torchmetrics does.
        """
        ids, special = encoding.ids, encoding.special_tokens_mask
        start = next((index for index, mark in enumerate(special) if not mark), len(ids))
        behind = next((index for index, mark in enumerate(reversed(special)) if not mark), 0)
        own = len(ids) - start - behind
        if own <= self._own:
            return Tokens(ids, start, start + own, truncated=False)
        stop = start + self._own
        return Tokens(ids[:stop] + ids[len(ids) - behind :], start, stop, truncated=True)


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
    """Name an encoder so that it differs from others: ``all-MiniLM-L6-v2@c9745ed1d9f2 (onnx)``."""
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
