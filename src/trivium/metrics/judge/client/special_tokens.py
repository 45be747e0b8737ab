"""Breaks up special tokens of chat templates in texts, and restores them in answers.

Servers of open models may take ``<|im_start|>`` in a text for the beginning of another message. A zero-width
joiner after its first character prevents that. A model copies the joiner, or writes another invisible
character for it. The tokens are those of PydanticAI 2.68, which breaks them up in the same way.
"""

import re

_JOINER = "\u200d"
_INVISIBLE = "\u200b-\u200d\u2060\ufeff"
_TAILS = {
    "<": (
        rf'\|[^\s<>|"{_INVISIBLE}]{{1,64}}\|>',  # <|im_start|>
        rf'｜[^\s<>｜"{_INVISIBLE}]{{1,64}}｜>',  # <｜User｜>
        r"\|[a-z_]{1,32}>|[a-z_]{1,32}\|>|(?:start|end)_of_turn>",
    ),
    r"\[": (
        r"\|(?:system|tool|assistant|user|endofturn)\|\]|TOOL_CALLS\]|e~\[",
        r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\]",
    ),
    r"\]": (r"~b\]", r"~!b\["),
}
"""What follows the first character of a token."""

_TOKEN = re.compile("|".join(f"{first}(?={'|'.join(tails)})" for first, tails in _TAILS.items()))
_ESCAPED = r"\\u(?:200[b-dB-D]|2060|[fF][eE][fF]{2})"
_BROKEN = re.compile(
    "|".join(
        rf"(?<={first})(?:[{_INVISIBLE}]|{_ESCAPED})(?={'|'.join(tails)})" for first, tails in _TAILS.items()
    )
)


def broken_up(text: str) -> str:
    """Return a text with a joiner after the first character of each special token."""
    return _TOKEN.sub(lambda match: match[0] + _JOINER, text)


def restored(text: str) -> str:
    """Return an answer, JSON or not, without invisible characters in special tokens."""
    return _BROKEN.sub("", text)
