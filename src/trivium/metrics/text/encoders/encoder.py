"""What every encoder does, whichever library runs its model: tokens, their limit, and batches."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.model_files import Backend, Source
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


Vectors = NDArray[np.float32]
"""Token vectors, shape (tokens, width)."""


class Encoder(ABC):
    """A loaded model with its tokeniser: token vectors of texts.

    Scores from different encoders are not compared (docs/definitions/text.md#semantic).

    Args:
        source: The model's files.
        layer: Hidden layer whose vectors are returned, 0 for the embeddings, None for the last.
        tokenizer: A ``tokenizers.Tokenizer``; its truncation and padding are switched off.
        pad: Token id that fills up shorter texts of a batch.
        limit: The model's limit in tokens, special tokens included; longer texts are truncated.

    Attributes:
        name: Name on the hub, or of the local folder.
        revision: Commit on the hub, or a digest of the weights.
        backend: Library that runs the model.
        description: An unambiguous name: ``all-MiniLM-L6-v2@c9745ed1d9f2 (onnx)``.
        tokens_at_once: Batch size in padded tokens.
        workers: Number of batches encoded in parallel.

    Raises:
        EncoderUnavailable: If the limit leaves no token for a text.
    """

    backend: Backend
    tokens_at_once = 512
    workers: int

    def __init__(self, source: Source, layer: int | None, tokenizer: Any, *, pad: int, limit: int) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.name, self.revision, self.layer = source.name, source.revision, layer
        which = "" if layer is None else f", layer {layer}"
        self.description = f"{self.name}@{self.revision[:12]} ({self.backend}{which})"
        self._tokenizer, self._pad, self._limit = tokenizer, pad, limit
        self._own = limit - tokenizer.num_special_tokens_to_add(is_pair=False)
        if self._own < 1:
            raise EncoderUnavailable(f"the encoder's limit of {limit} tokens leaves none for a text")

    def tokenise(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise each text, truncated to the model's limit."""
        # A text may hold megabytes of which the model reads one page. Tokenise only its head, unless the
        # head gives too few tokens to be safe.
        head = _HEAD_PER_TOKEN * self._limit
        encodings = self._encodings([text[:head] for text in texts])
        for index, text in enumerate(texts):
            if len(text) > head and len(encodings[index].ids) <= 2 * self._limit:
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

    def encode(self, batches: Iterable[Sequence[Tokens]]) -> Iterator[list[Vectors]]:
        """Yield for each batch the vectors of each text, special tokens excluded.

        Batches are encoded in parallel, each on one core. This is faster than running each on all cores: the
        layers are small, and the cores would spin while they wait for each other after every layer, above all
        on a busy machine.
        """
        with ThreadPoolExecutor(self.workers) as pool:
            yield from pool.map(self._encode, batches)

    def _encode(self, batch: Sequence[Tokens]) -> list[Vectors]:
        shape = (len(batch), max(len(tokens.ids) for tokens in batch))
        ids, mask = np.full(shape, self._pad, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens.ids)] = tokens.ids
            mask[row, : len(tokens.ids)] = 1
        hidden = self.hidden(ids, mask)
        return [
            np.array(hidden[row, each.start : each.stop], dtype=np.float32) for row, each in enumerate(batch)
        ]

    @abstractmethod
    def hidden(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """Run the model; thread-safe.

        Args:
            ids: Token ids, shape (texts, tokens).
            mask: 1 for tokens of the texts, 0 for those that fill up; the same shape.

        Returns:
            Vectors of the layer, shape (texts, tokens, width).
        """


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
