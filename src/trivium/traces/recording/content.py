"""Content: what went in and came out as bounded JSON, with secrets taken out before it is kept anywhere."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from trivium.masking import MASK, Masker

MOST_CHARS = 65_536
"""Characters of one input or output that are recorded."""

_PLAIN = (int, float, bool, type(None))


class Content:
    """Makes recorded values.

    Args:
        patterns: What is masked besides secrets.
    """

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self._patterns = tuple(patterns)
        self._masker = Masker()

    def text(self, text: str) -> str:
        """A text, bounded and masked."""
        if len(text) > MOST_CHARS:
            text = f"{text[:MOST_CHARS]}… ({len(text):,} characters)"
        if not text.isascii():
            # Half a surrogate pair, which no file holds, becomes the replacement character.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = self._masker.mask(text)
        for pattern in self._patterns:
            text = pattern.sub(MASK, text)
        return text

    def value(self, value: Any) -> Any:
        """Any value as JSON, bounded and masked; what cannot be JSON is told by its type."""
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, str):
            return self.text(value)
        try:
            encoded = msgspec.json.encode(value, enc_hook=_plain).decode()
        except Exception as error:  # values of any kind: nothing that they do may reach the agent
            return f"[{type(value).__name__} is not recorded: {type(error).__name__}]"
        if len(encoded) > MOST_CHARS:
            return self.text(encoded)
        if not self._patterns and not self._masker.may_hold_a_secret(encoded):
            return msgspec.Raw(encoded.encode())
        return _walked(msgspec.json.decode(encoded), self.text, self._masker)


def _plain(value: Any) -> Any:
    """What msgspec cannot encode: Pydantic models as their fields, all else as text."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    return repr(value)[:MOST_CHARS]


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
