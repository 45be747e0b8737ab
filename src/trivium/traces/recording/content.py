"""Content: what went in and came out as bounded JSON, with secrets taken out before it is kept anywhere."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from trivium.jsonable import MOST_CHARS, encode, plain_text
from trivium.masking import MASK, Masker

_PLAIN = frozenset({float, bool, type(None)})


class Content:
    """Makes recorded values.

    Args:
        patterns: What is masked besides secrets.
    """

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self._patterns = tuple(patterns)
        self._masker = Masker()

    def text(self, text: str) -> str:
        """A text, bounded and masked; anything else that stands for one is made a text first."""
        text = plain_text(text)
        if len(text) > MOST_CHARS:
            text = f"{text[:MOST_CHARS]}… ({len(text):,} characters)"
        text = self._masker.mask(text)
        for pattern in self._patterns:
            text = pattern.sub(MASK, text)
        return text

    def value(self, value: Any, as_text: list[str] | None = None) -> Any:
        """Any value as JSON, bounded and masked.

        Args:
            value: Any object.
            as_text: Gets the name of the type of each value in it that JSON does not have.
        """
        kind = type(value)
        if kind in _PLAIN or (kind is int and -(2**63) <= value < 2**63):
            return value
        if issubclass(kind, str):
            return self.text(value)
        try:
            return self._json(encode(value, as_text).decode())
        except Exception as error:  # nested so deep that the masked copy cannot be made
            return f"[{kind.__name__} is not recorded: {type(error).__name__}]"

    def _json(self, encoded: str) -> Any:
        if len(encoded) > MOST_CHARS:
            return self.text(encoded)
        if not self._patterns and not self._masker.may_hold_a_secret(encoded):
            return msgspec.Raw(encoded.encode())
        return _walked(msgspec.json.decode(encoded), self.text, self._masker)


def _walked(value: Any, text: Callable[[str], str], masker: Masker) -> Any:
    """A decoded value with every text in it masked; its depth is bounded by the decoder's."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_walked(each, text, masker) for each in value]
    if isinstance(value, dict):
        return {
            text(key): MASK if masker.names_a_secret(key) else _walked(each, text, masker)
            for key, each in value.items()
        }
    return value
