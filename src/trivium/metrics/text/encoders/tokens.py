"""Tokens of texts, cut to what a model can read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from trivium.errors import EncoderUnavailable
from trivium.suites.door import clean

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
