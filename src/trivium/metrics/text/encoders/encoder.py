"""The encoder interface, and tokenisation with truncation to the model's limit."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trivium.errors import EncoderUnavailable
from trivium.safe_text import sanitise

_WITHOUT_LIMIT = 512
"""Token limit where neither the model nor its tokeniser states one (relative positions)."""

_PADDED_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "xmod", "data2vec-text"}
)
"""Model types that number positions from ``pad_token_id + 1``, which lowers the limit by as many."""


def max_tokens(config: Mapping[str, Any], tokenizer_config: Mapping[str, Any]) -> int:
    """Return the model's limit in tokens, special tokens included.

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
"""Characters per token to which a long text is first cut; longer averages are rare."""


class Tokens(NamedTuple):
    """Tokens of one text.

    Attributes:
        ids: Token ids, with the special tokens at both ends.
        start: Index of the first token that is not special.
        stop: Index after the last token that is not special.
        truncated: Whether the text exceeded the model's limit.
    """

    ids: list[int]
    start: int
    stop: int
    truncated: bool


class Tokeniser:
    """A fast tokeniser of the ``tokenizers`` library that truncates at the model's limit.

    Args:
        tokenizer: A ``tokenizers.Tokenizer``; its truncation and padding are switched off.
        max_tokens: The model's limit, special tokens included.
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
        """Tokenise each text, truncated to the limit."""
        # A text may hold megabytes of which the model reads one page. Tokenise only its head, unless the
        # head gives too few tokens to be safe.
        head = _HEAD_PER_TOKEN * self.max_tokens
        encodings = self._encodings([text[:head] for text in texts])
        for index, text in enumerate(texts):
            if len(text) > head and len(encodings[index].ids) <= 2 * self.max_tokens:
                (encodings[index],) = self._encodings([text])
        return [self._cut(encoding) for encoding in encodings]

    def _encodings(self, texts: Sequence[str]) -> list[Any]:
        encodings: list[Any] = self._tokenizer.encode_batch_fast([sanitise(text)[0] for text in texts])
        return encodings

    def _cut(self, encoding: Any) -> Tokens:
        """Truncate an encoding and keep the special tokens at its ends.

        A text may contain the spelling of a special token. Only the special tokens that the tokeniser
        added at the ends are excluded, as in torchmetrics.
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
"""Token vectors, shape (tokens, width)."""

Backend = Literal["onnx", "torch"]


class Encoder(Protocol):
    """A loaded model with its tokeniser.

    Scores from different encoders are not compared (docs/definitions/text.md#semantic).

    Attributes:
        name: Name on the hub, or of the local folder.
        revision: Commit on the hub, or a digest of the weights.
        backend: Library that runs the model.
        layer: Hidden layer whose vectors are returned, None for the last.
        max_tokens: The model's limit, special tokens included; longer texts are truncated.
        tokens_at_once: Batch size in padded tokens.
        workers: Number of batches encoded in parallel.
    """

    name: str
    revision: str
    backend: Backend
    layer: int | None
    max_tokens: int
    tokens_at_once: int
    workers: int

    def tokenise(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise each text, truncated to the model's limit."""
        ...

    def encode(self, batches: Iterable[Sequence[Tokens]]) -> Iterator[list[Vectors]]:
        """Yield for each batch the vectors of each text, special tokens excluded."""
        ...


_processes = 1
"""Number of processes that encode at the same time on this machine."""


def share_cores(processes: int) -> None:
    """State that this process is one of several that encode at the same time."""
    global _processes  # noqa: PLW0603 - a fact of the process
    _processes = processes


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    all_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, all_cores // _processes)


def one_core_each(
    encode: Callable[[Sequence[Tokens]], list[Vectors]],
    batches: Iterable[Sequence[Tokens]],
    *,
    workers: int,
    begin: Callable[[], None] | None = None,
) -> Iterator[list[Vectors]]:
    """Encode batches in parallel, one core per batch.

    This is faster than running each batch on all cores: the layers are small, and the cores would spin
    while they wait for each other after every layer, above all on a busy machine.

    Args:
        encode: Encodes one batch; must be thread-safe.
        batches: The batches to encode.
        workers: Number of threads.
        begin: Called in each thread before its first batch.
    """
    with ThreadPoolExecutor(workers, initializer=begin) as pool:
        yield from pool.map(encode, batches)


def describe(encoder: Encoder) -> str:
    """Return an unambiguous name: ``all-MiniLM-L6-v2@c9745ed1d9f2 (onnx)``."""
    layer = "" if encoder.layer is None else f", layer {encoder.layer}"
    return f"{encoder.name}@{encoder.revision[:12]} ({encoder.backend}{layer})"


def padded(batch: Sequence[Tokens], pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids and attention mask of a batch, each of shape (texts, tokens of the longest text)."""
    shape = (len(batch), max(len(tokens.ids) for tokens in batch))
    ids, mask = np.full(shape, pad, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens.ids)] = tokens.ids
        mask[row, : len(tokens.ids)] = 1
    return ids, mask


def own_vectors(batch: Sequence[Tokens], hidden: Any) -> list[Vectors]:
    """Copy each text's vectors out of ``hidden``, shape (texts, tokens, width), special tokens excluded."""
    return [
        np.array(hidden[row, tokens.start : tokens.stop], dtype=np.float32)
        for row, tokens in enumerate(batch)
    ]
